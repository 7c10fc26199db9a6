-- Commits one small transaction to {schema} if nothing stands in its way and nobody else has committed since the caller was
-- last answered, and does nothing otherwise: then there is no row. `alone_put.sql` or `alone_delete.sql` follows, which says
-- what is written; two statements, since each part that is planned and started costs, whether it has something to do or not.
--
-- $1   the store's revision as the caller knows it
-- $2   the server's system, $3 its branch, as the caller's connection knows them
-- $4   the earliest and $5 the latest time at which it may be judged, on the store's clock
-- $6   a name, and $7 its version, that must be found (zero: no record); $8 and $9 another
-- $10, $11 and $12 numbers that whoever listens to what is written holds a lock on
--
-- It never waits. The row of meta is read as the statement found it, and replaced only if it is still of that revision.
-- The clock is read twice: it is judged by the first time, and the second is kept within what was judged.
WITH moved AS (
    UPDATE {schema}.meta AS m
       SET revision = $1 + 1,
           last_ms = least(greatest({schema}.wall_ms() + m.offset_ms, m.last_ms, $4), $5)
     WHERE m.one
       AND m.revision = $1
       AND m.revision < 4611686018427387903
       AND m.system IS NOT DISTINCT FROM $2
       AND m.timeline = $3
       AND (m.lossy OR current_setting('synchronous_standby_names') <> '')
       AND {schema}.wall_ms() + m.offset_ms BETWEEN greatest(m.last_ms, $4) AND $5
       AND $7 = coalesce((SELECT r.version FROM {schema}.records AS r WHERE r.name = $6), 0)
       AND $9 = coalesce((SELECT r.version FROM {schema}.records AS r WHERE r.name = $8), 0)
       AND pg_try_advisory_xact_lock(hashtextextended('bellwether {schema}', 0))
       AND pg_try_advisory_xact_lock($10)
       AND pg_try_advisory_xact_lock($11)
       AND pg_try_advisory_xact_lock($12)
    RETURNING m.last_ms, m.offset_ms
