SELECT "SearchPhrase", COUNT(DISTINCT "UserID") AS u
FROM hits WHERE "SearchPhrase" <> ''
GROUP BY "SearchPhrase"
ORDER BY u DESC
LIMIT 10
