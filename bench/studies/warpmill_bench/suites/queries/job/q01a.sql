select
    min(mc.note) as production_note,
    min(t.title) as movie_title,
    min(t.production_year) as movie_year
from
    company_type as ct,
    info_type as it,
    movie_companies as mc,
    movie_info_idx as mi_idx,
    title as t
where
    ct.kind = 'production companies'
    and it.info = 'top 250 rank'
    and mc.note not like '%(as Metro-Goldwyn-Mayer Pictures)%'
    and (mc.note like '%(co-production)%' or mc.note like '%(presents)%')
    and ct.id = mc.company_type_id
    and t.id = mc.movie_id
    and t.id = mi_idx.movie_id
    and mc.movie_id = mi_idx.movie_id
    and it.id = mi_idx.info_type_id
