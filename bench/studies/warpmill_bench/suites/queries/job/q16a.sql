select
    min(an.name) as cool_actor_pseudonym,
    min(t.title) as series_named_after_char
from
    aka_name as an,
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
    and t.episode_nr >= 50
    and t.episode_nr < 100
    and an.person_id = n.id
    and n.id = ci.person_id
    and ci.movie_id = t.id
    and t.id = mk.movie_id
    and mk.keyword_id = k.id
    and t.id = mc.movie_id
    and mc.company_id = cn.id
    and an.person_id = ci.person_id
    and ci.movie_id = mc.movie_id
    and ci.movie_id = mk.movie_id
    and mc.movie_id = mk.movie_id
