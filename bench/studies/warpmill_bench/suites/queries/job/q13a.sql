select
    min(mi.info) as release_date,
    min(mi_idx.info) as rating,
    min(t.title) as german_movie
from
    company_name as cn,
    company_type as ct,
    info_type as it1,
    info_type as it2,
    kind_type as kt,
    movie_companies as mc,
    movie_info as mi,
    movie_info_idx as mi_idx,
    title as t
where
    cn.country_code = '[de]'
    and ct.kind = 'production companies'
    and it1.info = 'rating'
    and it2.info = 'release dates'
    and kt.kind = 'movie'
    and mi.movie_id = t.id
    and it2.id = mi.info_type_id
    and kt.id = t.kind_id
    and mc.movie_id = t.id
    and cn.id = mc.company_id
    and ct.id = mc.company_type_id
    and mi_idx.movie_id = t.id
    and it1.id = mi_idx.info_type_id
    and mi.movie_id = mi_idx.movie_id
    and mi.movie_id = mc.movie_id
    and mi_idx.movie_id = mc.movie_id
