select
    min(n.name) as member_in_charnamed_american_movie,
    min(n.name) as a1
from
    cast_info as ci,
    company_name as cn,
    keyword as k,
    movie_companies as mc,
    movie_keyword as mk,
    name as n,
    title as t
where
    cn.country_code = '[us]'
    and k.keyword = 'character-name-in-title'
    and n.name like 'B%'
    and n.id = ci.person_id
    and ci.movie_id = t.id
    and t.id = mk.movie_id
    and mk.keyword_id = k.id
    and t.id = mc.movie_id
    and mc.company_id = cn.id
    and ci.movie_id = mc.movie_id
    and ci.movie_id = mk.movie_id
    and mc.movie_id = mk.movie_id
