-- $13 and $14  the names to delete
), deleted AS (
    DELETE FROM {schema}.records AS r
     WHERE r.name IN ($13, $14)
       AND EXISTS (SELECT FROM moved)
)
SELECT v.last_ms, v.offset_ms
  FROM moved AS v
