select
    min(k.keyword) as movie_keyword,
    min(n.name) as actor_name,
    min(t.title) as marvel_movie
from
    cast_info as ci,
    keyword as k,
    movie_keyword as mk,
    name as n,
    title as t
where
    k.keyword = 'marvel-cinematic-universe'
    and n.name like '%Downey%Robert%'
    and t.production_year > 2010
    and k.id = mk.keyword_id
    and t.id = mk.movie_id
    and t.id = ci.movie_id
    and ci.movie_id = mk.movie_id
    and n.id = ci.person_id
