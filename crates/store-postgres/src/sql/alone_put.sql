-- $13  a name to put, and $14 its value; $15 and $16 another
-- $17  those of the two whose stamp stays
), put AS (
    INSERT INTO {schema}.records AS r (name, value, version, stamp)
    SELECT p.name, p.value, $1 + 1, $1 + 1
      FROM moved, (VALUES ($13::bytea, $14::bytea), ($15, $16)) AS p (name, value)
        ON CONFLICT ON CONSTRAINT records_pkey DO UPDATE
       SET value = excluded.value,
           version = excluded.version,
           stamp = CASE WHEN excluded.name = ANY ($17) THEN r.stamp ELSE excluded.stamp END
)
SELECT v.last_ms, v.offset_ms
  FROM moved AS v
