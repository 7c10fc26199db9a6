-- Commits transactions that waited together, each on its own: all of them in one transaction of the server.
--
-- at_ms         for each transaction, the time it was decided for; null: time played no part
-- waited_ms     for each transaction, how long it waited before it was sent: that makes no decision older
-- expects, writes    for each transaction, how many of the following are its own
-- expect_*      what must hold: which record, at which version (zero: none)
-- write_*       what to write then; kinds: 0 delete, 1 put with a new stamp, 2 put keeping the stamp
-- topics        numbers that whoever listens to what is written holds a lock on
-- least_revision, latest_ms, server_system    what the caller knows; another answer means that the store
--               went back (BL001) or that the server's clock has jumped (BL002)
-- sender        whose notifications these are
--
-- Each statement here is planned once per connection and touches one row by its key: that is several times
-- faster than statements over arrays, which are planned anew each time.
--
-- The last step is a commit of its own: the turn ends before the answer is sent, so a caller that stopped
-- reading can't make the others wait.
CREATE PROCEDURE {schema}.commit_each(
    sender text, least_revision bigint, latest_ms bigint, server_system text,
    at_ms bigint[], waited_ms bigint[], expects integer[], writes integer[],
    expect_name bytea[], expect_version bigint[],
    write_name bytea[], write_value bytea[], write_kind integer[], topics bigint[],
    INOUT now_ms bigint, INOUT offset_ms bigint,
    INOUT done boolean[], INOUT revisions bigint[],
    INOUT found_txn integer[], INOUT found_name bytea[], INOUT found_value bytea[],
    INOUT found_version bigint[], INOUT found_stamp bigint[])
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    record     {schema}.records;
    before     bigint;
    current    bigint;
    last_ms    bigint;
    system     text;
    timeline   text;
    branch     text;
    lossy      boolean;
    called_ms  bigint;
    wall_ms    bigint;
    expected   integer := 0;
    written    integer := 0;
    holds      boolean;
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
            pg_catalog.set_config('lock_timeout', '4s', true),
            pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', true),
            pg_catalog.set_config('enable_seqscan', 'off', true),
            pg_catalog.set_config('jit', 'off', true);
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
    SELECT m.revision, m.revision, m.last_ms, m.offset_ms, m.system, m.timeline, m.lossy,
           left(pg_walfile_name(pg_current_wal_lsn()), 8), {schema}.wall_ms()
      INTO STRICT before, current, last_ms, offset_ms, system, timeline, lossy, branch, wall_ms
      FROM {schema}.meta AS m
     WHERE m.one;
    IF before < least_revision OR system <> server_system OR (timeline <> branch AND lossy) THEN
        RAISE EXCEPTION 'the store may have gone back' USING ERRCODE = 'BL001';
    END IF;

    IF wall_ms + offset_ms < last_ms THEN
        -- The server's clock was set back. The store's goes on from where it was, from now on.
        offset_ms := last_ms - wall_ms;
        called_ms := wall_ms;
    END IF;
    called_ms := called_ms + offset_ms;
    IF called_ms > latest_ms THEN
        RAISE EXCEPTION 'the server''s clock has jumped' USING ERRCODE = 'BL002';
    END IF;
    now_ms := wall_ms + offset_ms;

    FOR txn IN 1..cardinality(at_ms) LOOP
        holds := (at_ms[txn] > called_ms OR called_ms - waited_ms[txn] - at_ms[txn] > {max_lag_ms}) IS NOT TRUE;
        FOR place IN expected + 1..expected + expects[txn] LOOP
            holds := holds AND expect_version[place] = coalesce(
                (SELECT r.version FROM {schema}.records AS r WHERE r.name = expect_name[place]), 0);
        END LOOP;

        IF NOT holds THEN
            FOR place IN expected + 1..expected + expects[txn] LOOP
                SELECT * INTO record FROM {schema}.records AS r WHERE r.name = expect_name[place];
                IF FOUND THEN
                    found_txn := found_txn || txn;
                    found_name := found_name || record.name;
                    found_value := found_value || record.value;
                    found_version := found_version || record.version;
                    found_stamp := found_stamp || record.stamp;
                END IF;
            END LOOP;
        ELSIF writes[txn] > 0 THEN
            current := current + 1;
            FOR place IN written + 1..written + writes[txn] LOOP
                IF write_kind[place] = 0 THEN
                    DELETE FROM {schema}.records AS r WHERE r.name = write_name[place];
                ELSE
                    INSERT INTO {schema}.records AS r (name, value, version, stamp)
                    VALUES (write_name[place], write_value[place], current, current)
                        ON CONFLICT ON CONSTRAINT records_pkey DO UPDATE
                       SET value = excluded.value,
                           version = excluded.version,
                           stamp = CASE write_kind[place] WHEN 1 THEN excluded.stamp ELSE r.stamp END;
                END IF;
            END LOOP;
        END IF;
        done[txn] := holds;
        revisions[txn] := current;
        expected := expected + expects[txn];
        written := written + writes[txn];
    END LOOP;

    IF current > before THEN
        UPDATE {schema}.meta AS m
           SET revision = current,
               last_ms = commit_each.now_ms,
               offset_ms = commit_each.offset_ms,
               timeline = branch,
               lossy = current_setting('synchronous_standby_names') = ''
         WHERE m.one AND m.revision = before;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'somebody else has changed meta' USING ERRCODE = 'serialization_failure';
        END IF;

        -- Whoever listens holds the number of its topic. One that nobody holds is held here until the commit, so
        -- that whoever begins to listen meanwhile reads what is written here.
        IF EXISTS (SELECT FROM unnest(topics) AS t (number) WHERE NOT pg_try_advisory_xact_lock(t.number)) THEN
            -- A notification holds at most 7,999 bytes: 24 names of 160 bytes in hexadecimal fit. If a name is
            -- longer, everybody looks for what has changed.
            IF EXISTS (SELECT FROM unnest(write_name) AS w (name) WHERE length(w.name) > 160) THEN
                PERFORM pg_notify('bell_{schema}', sender);
            ELSE
                PERFORM pg_notify('bell_{schema}', sender || string_agg(' ' || encode(w.name, 'hex'), ''))
                   FROM unnest(write_name) WITH ORDINALITY AS w (name, place)
                  GROUP BY w.place / 24;
            END IF;
        END IF;
    END IF;
    COMMIT;
END
$$;
