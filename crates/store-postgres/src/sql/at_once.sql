-- Commits a batch if nothing stands in its way, and does nothing otherwise: then there is no row, and the procedure
-- `commit_together` says why. It is the same commit, in one statement that is planned once and ends its own
-- transaction, for about three quarters of what the procedure takes.
--
-- $1   the highest revision that the caller knows of
-- $2   the server's system, $3 its branch, as the caller's connection knows them
-- $4   the earliest and $5 the latest time at which everything in the batch may be judged, on the store's clock
-- $6   how many transactions there are
-- $7   names, and $8 versions, that must be found (zero: no record)
-- $9   the number of the transaction that puts, from one on, $10 the name, $11 the value
-- $12  those of the names put whose stamp stays
-- $13  the names to delete
-- $14  numbers that whoever listens to what is written holds a lock on
--
-- It never waits. The row of meta is read as the statement found it, and replaced only if that was the latest: whoever
-- holds the turn has seen every commit then, and so has everything else that is read here.
WITH moved AS (
    UPDATE {schema}.meta AS m
       SET revision = t.revision + $6,
           last_ms = t.now_ms
      FROM (SELECT s.ctid AS place, s.revision, {schema}.wall_ms() + s.offset_ms AS now_ms
              FROM {schema}.meta AS s
             WHERE s.one AND s.ctid >= '(0,0)' OFFSET 0) AS t
     WHERE m.ctid = t.place
       AND m.revision = t.revision
       AND m.revision >= $1
       AND m.revision < 4611686018427387904 - $6
       AND m.system IS NOT DISTINCT FROM $2
       AND m.timeline = $3
       AND (m.lossy OR current_setting('synchronous_standby_names') <> '')
       AND t.now_ms BETWEEN greatest(m.last_ms, $4) AND $5
       AND NOT EXISTS (SELECT
                         FROM unnest($7, $8) AS e (name, version)
                        WHERE e.version <> coalesce(
                                  (SELECT r.version FROM {schema}.records AS r WHERE r.name = e.name), 0))
       AND pg_try_advisory_xact_lock(hashtextextended('bellwether {schema}', 0))
       AND NOT EXISTS (SELECT FROM unnest($14) AS u (number) WHERE NOT pg_try_advisory_xact_lock(u.number))
    RETURNING t.now_ms, m.offset_ms, t.revision
), put AS (
    INSERT INTO {schema}.records AS r (name, value, version, stamp)
    SELECT p.name, p.value, v.revision + p.txn, v.revision + p.txn
      FROM moved AS v, unnest($9, $10, $11) AS p (txn, name, value)
        ON CONFLICT ON CONSTRAINT records_pkey DO UPDATE
       SET value = excluded.value,
           version = excluded.version,
           stamp = CASE WHEN excluded.name = ANY ($12) THEN r.stamp ELSE excluded.stamp END
), deleted AS (
    DELETE FROM {schema}.records AS r
     WHERE r.name = ANY ($13)
       AND EXISTS (SELECT FROM moved)
)
SELECT v.now_ms, v.offset_ms, v.revision
  FROM moved AS v
