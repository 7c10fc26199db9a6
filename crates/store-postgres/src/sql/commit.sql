-- How statements are planned here, and for how long one waits for a turn: for one transaction, or for as long as the
-- connection lasts. It makes plans once, by keys, and looks for nothing outside the schema.
CREATE FUNCTION {schema}.settle(for_a_transaction boolean) RETURNS void
LANGUAGE sql VOLATILE AS $$
    SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', for_a_transaction),
           pg_catalog.set_config('lock_timeout', '4s', for_a_transaction),
           pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', for_a_transaction),
           pg_catalog.set_config('enable_seqscan', 'off', for_a_transaction),
           -- A bitmap would not tell the index which of its entries are dead, and keys come again and again.
           pg_catalog.set_config('enable_bitmapscan', 'off', for_a_transaction),
           pg_catalog.set_config('jit', 'off', for_a_transaction),
           pg_catalog.set_config('bellwether.settled', 'yes', for_a_transaction);
    SELECT
$$;

-- Commits transactions that waited together, each on its own: all of them in one transaction of the server.
--
-- Most of them have nothing to do with each other: those are the first, and are judged and written together, by
-- statements over arrays. A transaction that touches what an earlier one of the batch writes comes later: once the first are
-- written it is known whether it conflicts. If not, it has to come again, in another batch.
--
-- first         how many are judged together
-- oldest_ms, newest_ms    between these all were decided that are not null in at_ms
-- at_ms         for each transaction, the time it was decided for; null: time played no part
-- waited_ms     for each transaction, how long it waited before it was sent: that makes no decision older
-- expect_*      what must hold: for which of the first, which record, at which version (zero: none)
-- later_*       the same of those that come later
-- put_*, delete_*    what to write then, for which of the first; with a new stamp, or keeping that of the record
-- topics        numbers that whoever listens to what is written holds a lock on
-- least_revision, latest_ms, server_system    what the caller knows; another answer means that the store
--               went back (BL001) or that the server's clock has jumped (BL002)
-- sender        whose notifications these are
--
-- revision      that of the store before; the first have the following ones, in their order
-- wrote         whether anything was written: if not, no revision was used
-- failed        which transactions conflict; found_* what they expected, as it is
--
-- Each statement here is planned once per connection, and finds every record by its key: subqueries say so where
-- a join would leave it to the planner.
--
-- The last step is a commit of its own: the turn ends before the answer is sent, so a caller that stopped
-- reading can't make the others wait.
CREATE PROCEDURE {schema}.commit_together(
    sender text, least_revision bigint, latest_ms bigint, server_system text,
    first integer, oldest_ms bigint, newest_ms bigint, at_ms bigint[], waited_ms bigint[],
    expect_txn integer[], expect_name bytea[], expect_version bigint[],
    later_txn integer[], later_name bytea[], later_version bigint[],
    put_txn integer[], put_name bytea[], put_value bytea[], put_stamps boolean[],
    delete_txn integer[], delete_name bytea[], topics bigint[],
    INOUT now_ms bigint, INOUT offset_ms bigint, INOUT revision bigint, INOUT wrote boolean, INOUT failed integer[],
    INOUT found_txn integer[], INOUT found_name bytea[], INOUT found_value bytea[],
    INOUT found_version bigint[], INOUT found_stamp bigint[])
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    branch     text;
    refused    text;
    heard      boolean;
    called_ms  bigint;
BEGIN
    -- A connection of our own is settled once; one that a pooler lends is settled for this transaction.
    IF current_setting('bellwether.settled', true) IS DISTINCT FROM 'yes' THEN
        PERFORM {schema}.settle(true);
    END IF;
    IF current_setting('synchronous_commit') IN ('off', 'local') OR pg_is_in_recovery()
       OR current_setting('transaction_isolation') <> 'read committed' THEN
        IF pg_is_in_recovery() THEN
            RAISE EXCEPTION 'the server is a standby' USING ERRCODE = '25006';
        ELSIF current_setting('transaction_isolation') <> 'read committed' THEN
            RAISE EXCEPTION 'the transaction isolation is not read committed' USING ERRCODE = 'BL003';
        END IF;
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;

    -- Waiting for the turn makes nobody's time older: what was decided is judged as of now.
    called_ms := {schema}.wall_ms();
    PERFORM pg_advisory_xact_lock(hashtextextended('bellwether {schema}', 0));

    -- A server's clock that was set back shows here: the store's goes on from where it was, from now on.
    SELECT t.wall_ms + t.offset_ms, t.offset_ms, t.revision, t.branch,
           CASE WHEN t.offset_ms > t.stored_offset_ms THEN t.wall_ms ELSE called_ms END + t.offset_ms,
           CASE WHEN t.revision < least_revision OR t.system <> server_system OR (t.timeline <> t.branch AND t.lossy)
                THEN 'the store may have gone back' END,
           ARRAY(SELECT e.txn
                   FROM unnest(expect_txn, expect_name, expect_version) AS e (txn, name, version)
                  WHERE e.version <> coalesce(
                            (SELECT r.version FROM {schema}.records AS r WHERE r.name = e.name), 0)),
           -- Whoever listens holds the number of its topic. One that nobody holds is held here until the commit, so
           -- that whoever begins to listen meanwhile reads what is written here.
           EXISTS (SELECT FROM unnest(topics) AS u (number) WHERE NOT pg_try_advisory_xact_lock(u.number))
      INTO STRICT now_ms, offset_ms, revision, branch, called_ms, refused, failed, heard
      FROM (SELECT m.revision, m.system, m.timeline, m.lossy, w.wall_ms, w.branch, m.offset_ms AS stored_offset_ms,
                   greatest(m.offset_ms, m.last_ms - w.wall_ms) AS offset_ms
              FROM {schema}.meta AS m,
                   (SELECT {schema}.wall_ms(), left(pg_walfile_name(pg_current_wal_lsn()), 8)
                    OFFSET 0) AS w (wall_ms, branch)
             WHERE m.one OFFSET 0) AS t;
    IF refused IS NOT NULL THEN
        RAISE EXCEPTION '%', refused USING ERRCODE = 'BL001';
    ELSIF revision >= 4611686018427387904 - first THEN
        RAISE EXCEPTION 'there are no more revisions' USING ERRCODE = 'check_violation';
    ELSIF called_ms > latest_ms THEN
        RAISE EXCEPTION 'the server''s clock has jumped' USING ERRCODE = 'BL002';
    ELSIF newest_ms > called_ms OR called_ms - oldest_ms > {max_lag_ms} THEN
        failed := failed || ARRAY(
            SELECT t.txn::integer
              FROM unnest(at_ms, waited_ms) WITH ORDINALITY AS t (at_ms, waited_ms, txn)
             WHERE t.at_ms > called_ms OR called_ms - t.waited_ms - t.at_ms > {max_lag_ms});
    END IF;

    wrote := put_txn || delete_txn <> '{}';
    IF wrote AND failed <> '{}' THEN
        wrote := EXISTS (SELECT FROM unnest(put_txn || delete_txn) AS w (txn) WHERE w.txn <> ALL (failed));
    END IF;
    IF wrote THEN
        IF put_txn <> '{}' THEN
            INSERT INTO {schema}.records AS r (name, value, version, stamp)
            SELECT p.name, p.value, revision + p.txn,
                   CASE WHEN p.stamps THEN revision + p.txn
                        ELSE coalesce((SELECT s.stamp FROM {schema}.records AS s WHERE s.name = p.name),
                                      revision + p.txn) END
              FROM unnest(put_txn, put_name, put_value, put_stamps) AS p (txn, name, value, stamps)
             WHERE p.txn <> ALL (failed)
                ON CONFLICT ON CONSTRAINT records_pkey DO UPDATE
               SET value = excluded.value,
                   version = excluded.version,
                   stamp = excluded.stamp;
        END IF;
        IF delete_txn <> '{}' THEN
            DELETE FROM {schema}.records AS r
             WHERE r.name = ANY (ARRAY(SELECT d.name
                                         FROM unnest(delete_txn, delete_name) AS d (txn, name)
                                        WHERE d.txn <> ALL (failed)));
        END IF;
        UPDATE {schema}.meta AS m
           SET revision = commit_together.revision + first,
               last_ms = commit_together.now_ms,
               offset_ms = commit_together.offset_ms,
               timeline = branch,
               lossy = current_setting('synchronous_standby_names') = ''
         WHERE m.one AND m.revision = commit_together.revision;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'somebody else has changed meta' USING ERRCODE = 'serialization_failure';
        END IF;
        IF heard THEN
            -- A notification holds at most 7,999 bytes: 24 names of 160 bytes in hexadecimal fit. If a name is
            -- longer, everybody looks for what has changed.
            IF EXISTS (SELECT FROM unnest(put_name || delete_name) AS w (name) WHERE length(w.name) > 160) THEN
                PERFORM pg_notify('bell_{schema}', sender);
            ELSE
                PERFORM pg_notify('bell_{schema}', sender || string_agg(' ' || encode(w.name, 'hex'), ''))
                   FROM unnest(put_name || delete_name) WITH ORDINALITY AS w (name, place)
                  GROUP BY w.place / 24;
            END IF;
        END IF;
    END IF;

    IF later_txn <> '{}' THEN
        failed := failed || ARRAY(
            SELECT e.txn
              FROM unnest(later_txn, later_name, later_version) AS e (txn, name, version)
             WHERE e.version <> coalesce((SELECT r.version FROM {schema}.records AS r WHERE r.name = e.name), 0));
    END IF;
    IF failed <> '{}' THEN
        SELECT coalesce(array_agg(e.txn), '{}'), coalesce(array_agg(r.name), '{}'),
               coalesce(array_agg(r.value), '{}'), coalesce(array_agg(r.version), '{}'),
               coalesce(array_agg(r.stamp), '{}')
          INTO found_txn, found_name, found_value, found_version, found_stamp
          FROM unnest(expect_txn || later_txn, expect_name || later_name) AS e (txn, name),
               LATERAL (SELECT * FROM {schema}.records AS s WHERE s.name = e.name OFFSET 0) AS r
         WHERE e.txn = ANY (failed);
    END IF;
    COMMIT;
END
$$;
