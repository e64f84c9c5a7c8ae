select
    min(an.name) as alternative_name,
    min(chn.name) as character_name,
    min(t.title) as movie
from
    aka_name as an,
    char_name as chn,
    cast_info as ci,
    company_name as cn,
    movie_companies as mc,
    name as n,
    role_type as rt,
    title as t
where
    ci.note in ('(voice)', '(voice: Japanese version)', '(voice) (uncredited)', '(voice: English version)')
    and cn.country_code = '[us]'
    and mc.note is not null
    and (mc.note like '%(USA)%' or mc.note like '%(worldwide)%')
    and n.gender = 'f'
    and n.name like '%Ang%'
    and rt.role = 'actress'
    and t.production_year between 2005 and 2015
    and ci.movie_id = t.id
    and t.id = mc.movie_id
    and ci.movie_id = mc.movie_id
    and mc.company_id = cn.id
    and ci.role_id = rt.id
    and n.id = ci.person_id
    and chn.id = ci.person_role_id
    and an.person_id = n.id
    and an.person_id = ci.person_id
