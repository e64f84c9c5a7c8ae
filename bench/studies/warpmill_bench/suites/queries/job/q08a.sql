select
    min(an1.name) as actress_pseudonym,
    min(t.title) as japanese_movie_dubbed
from
    aka_name as an1,
    cast_info as ci,
    company_name as cn,
    movie_companies as mc,
    name as n1,
    role_type as rt,
    title as t
where
    ci.note = '(voice: English version)'
    and cn.country_code = '[jp]'
    and mc.note like '%(Japan)%'
    and mc.note not like '%(USA)%'
    and n1.name like '%Yo%'
    and n1.name not like '%Yu%'
    and rt.role = 'actress'
    and an1.person_id = n1.id
    and n1.id = ci.person_id
    and ci.movie_id = t.id
    and t.id = mc.movie_id
    and mc.company_id = cn.id
    and ci.role_id = rt.id
    and an1.person_id = ci.person_id
    and ci.movie_id = mc.movie_id
