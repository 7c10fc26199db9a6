-- Commits transactions that waited together, each on its own: all of them in one transaction of the server.
--
-- at_ms         for each transaction, the time it was decided for; null: time played no part
-- waited_ms     for each transaction, how long it waited before it was sent: that makes no decision older
-- has_writes    for each transaction, whether it writes at all
-- wave_ends     the last transaction of each wave: those of one wave touch nothing that another writes
-- expect_*      what must hold: of which transaction, which record, at which version (zero: none)
-- write_*       what to write then; kinds: 0 delete, 1 put with a new stamp, 2 put keeping the stamp
-- least_revision, latest_ms, server_system    what the caller knows; another answer means that the store
--               went back (BL001) or that the server's clock has jumped (BL002)
-- sender        whose notifications these are
--
-- The last step is a commit of its own: the turn ends before the answer is sent, so a caller that stopped
-- reading can't make the others wait.
CREATE PROCEDURE {schema}.commit(
    sender text, least_revision bigint, latest_ms bigint, server_system text,
    at_ms bigint[], waited_ms bigint[], has_writes boolean[], wave_ends integer[],
    expect_txn integer[], expect_name bytea[], expect_version bigint[],
    write_txn integer[], write_name bytea[], write_value bytea[], write_kind integer[],
    INOUT now_ms bigint, INOUT offset_ms bigint,
    INOUT done boolean[], INOUT revisions bigint[],
    INOUT found_txn integer[], INOUT found_name bytea[], INOUT found_value bytea[],
    INOUT found_version bigint[], INOUT found_stamp bigint[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    meta       {schema}.meta;
    before     bigint;
    branch     text;
    called_ms  bigint;
    wall_ms    bigint;
    opening    integer := 1;
    ending     integer;
    failed     integer[];
    conflicts  boolean;
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
            pg_catalog.set_config('lock_timeout', '4s', true),
            pg_catalog.set_config('enable_seqscan', 'off', true),
            pg_catalog.set_config('jit', 'off', true),
            CASE WHEN pg_catalog.current_setting('synchronous_commit') IN ('off', 'local')
                 THEN pg_catalog.set_config('synchronous_commit', 'on', true)
            END;
    IF pg_is_in_recovery() THEN
        RAISE EXCEPTION 'the server is a standby' USING ERRCODE = '25006';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'the transaction isolation is not read committed' USING ERRCODE = 'BL003';
    END IF;

    -- Waiting for the turn makes nobody's time older: what was decided is judged as of now.
    called_ms := {schema}.wall_ms();
    PERFORM {schema}.take_turn();
    SELECT * INTO STRICT meta FROM {schema}.meta WHERE one;
    before := meta.revision;
    branch := {schema}.timeline();
    IF meta.revision < least_revision
       OR meta.system <> server_system
       OR (meta.timeline <> branch AND meta.lossy) THEN
        RAISE EXCEPTION 'the store may have gone back' USING ERRCODE = 'BL001';
    END IF;

    wall_ms := {schema}.wall_ms();
    IF wall_ms + meta.offset_ms < meta.last_ms THEN
        -- The server's clock was set back. The store's goes on from where it was, from now on.
        meta.offset_ms := meta.last_ms - wall_ms;
        called_ms := wall_ms;
    END IF;
    called_ms := called_ms + meta.offset_ms;
    IF called_ms > latest_ms THEN
        RAISE EXCEPTION 'the server''s clock has jumped' USING ERRCODE = 'BL002';
    END IF;
    now_ms := wall_ms + meta.offset_ms;
    offset_ms := meta.offset_ms;

    done := '{}';
    revisions := '{}';
    found_txn := '{}';
    found_name := '{}';
    found_value := '{}';
    found_version := '{}';
    found_stamp := '{}';
    FOREACH ending IN ARRAY wave_ends LOOP
        failed := ARRAY(
            SELECT e.txn
              FROM unnest(expect_txn, expect_name, expect_version) AS e (txn, name, version)
             WHERE e.txn BETWEEN opening AND ending
               AND e.version <> coalesce(
                   (SELECT r.version FROM {schema}.records AS r WHERE r.name = e.name), 0));
        conflicts := false;
        FOR txn IN opening..ending LOOP
            IF txn = ANY (failed)
               OR at_ms[txn] > called_ms
               OR called_ms - waited_ms[txn] - at_ms[txn] > {max_lag_ms} THEN
                done[txn] := false;
                conflicts := true;
            ELSE
                done[txn] := true;
                IF has_writes[txn] THEN
                    meta.revision := meta.revision + 1;
                END IF;
            END IF;
            revisions[txn] := meta.revision;
        END LOOP;

        IF conflicts THEN
            SELECT found_txn || array_agg(e.txn), found_name || array_agg(r.name),
                   found_value || array_agg(r.value), found_version || array_agg(r.version),
                   found_stamp || array_agg(r.stamp)
              INTO found_txn, found_name, found_value, found_version, found_stamp
              FROM unnest(expect_txn, expect_name) AS e (txn, name),
                   LATERAL (SELECT * FROM {schema}.records WHERE name = e.name OFFSET 0) AS r
             WHERE e.txn BETWEEN opening AND ending AND NOT done[e.txn];
        END IF;

        IF meta.revision > before THEN
            INSERT INTO {schema}.records (name, value, version, stamp)
            SELECT w.name, w.value, revisions[w.txn],
                   CASE w.kind WHEN 1 THEN revisions[w.txn] ELSE coalesce(
                       (SELECT r.stamp FROM {schema}.records AS r WHERE r.name = w.name), revisions[w.txn])
                   END
              FROM unnest(write_txn, write_name, write_value, write_kind) AS w (txn, name, value, kind)
             WHERE w.txn BETWEEN opening AND ending AND done[w.txn] AND w.kind > 0
                ON CONFLICT (name) DO UPDATE
               SET value = excluded.value, version = excluded.version, stamp = excluded.stamp;

            DELETE FROM {schema}.records
             WHERE name = ANY (ARRAY(
                   SELECT w.name
                     FROM unnest(write_txn, write_name, write_kind) AS w (txn, name, kind)
                    WHERE w.txn BETWEEN opening AND ending AND done[w.txn] AND w.kind = 0));
        END IF;
        opening := ending + 1;
    END LOOP;

    IF meta.revision > before THEN
        UPDATE {schema}.meta AS m
           SET revision = meta.revision,
               last_ms = now_ms,
               offset_ms = meta.offset_ms,
               timeline = branch,
               lossy = current_setting('synchronous_standby_names') = ''
         WHERE m.one AND m.revision = before;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'somebody else has changed meta' USING ERRCODE = 'serialization_failure';
        END IF;

        -- A notification holds at most 7,999 bytes: 24 names of 160 bytes in hexadecimal fit. If a name is
        -- longer, everybody looks for what has changed.
        IF EXISTS (SELECT FROM unnest(write_name) AS w (name) WHERE length(w.name) > 160) THEN
            PERFORM pg_notify('bell_{schema}', sender);
        ELSE
            PERFORM pg_notify('bell_{schema}', sender || string_agg(' ' || encode(w.name, 'hex'), ''))
               FROM unnest(write_txn, write_name) WITH ORDINALITY AS w (txn, name, place)
              WHERE done[w.txn]
              GROUP BY w.place / 24;
        END IF;
    END IF;
    COMMIT;
END
$$;
