select
    min(kt.kind) as movie_kind,
    min(t.title) as complete_us_internet_movie
from
    complete_cast as cc,
    comp_cast_type as cct1,
    company_name as cn,
    company_type as ct,
    info_type as it1,
    keyword as k,
    kind_type as kt,
    movie_companies as mc,
    movie_info as mi,
    movie_keyword as mk,
    title as t
where
    cct1.kind = 'complete+verified'
    and cn.country_code = '[us]'
    and it1.info = 'release dates'
    and kt.kind in ('movie')
    and mi.note like '%internet%'
    and mi.info is not null
    and (mi.info like 'USA:% 199%' or mi.info like 'USA:% 200%')
    and t.production_year > 2000
    and kt.id = t.kind_id
    and t.id = mi.movie_id
    and t.id = mk.movie_id
    and t.id = mc.movie_id
    and t.id = cc.movie_id
    and mk.movie_id = mi.movie_id
    and mk.movie_id = mc.movie_id
    and mk.movie_id = cc.movie_id
    and mi.movie_id = mc.movie_id
    and mi.movie_id = cc.movie_id
    and mc.movie_id = cc.movie_id
    and k.id = mk.keyword_id
    and it1.id = mi.info_type_id
    and cn.id = mc.company_id
    and ct.id = mc.company_type_id
    and cct1.id = cc.status_id
