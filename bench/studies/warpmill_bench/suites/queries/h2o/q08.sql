select id6, largest2_v3
from (
    select id6, v3 as largest2_v3, row_number() over (partition by id6 order by v3 desc) as order_v3
    from x
    where v3 is not null
) as ranked
where order_v3 <= 2
