-- Format 2: everything a store needs in its schema. {schema} is replaced by the schema's name, which is made
-- of small letters, digits and underscores only.
--
-- Names are bytes, not text: their order is that of their bytes whatever the database's locale, and they may
-- hold characters that PostgreSQL's text can't.

CREATE TABLE {schema}.records (
    name     bytea  PRIMARY KEY,
    value    bytea  NOT NULL,
    version  bigint NOT NULL,
    stamp    bigint NOT NULL
) WITH (fillfactor = 80, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.05);

COMMENT ON TABLE {schema}.records IS
    'Bellwether: everything it keeps. Read names with convert_from(name, ''UTF8'').';

-- Every commit replaces the one row of this table; the free space keeps its versions on one page. It has no constraints
-- but what an index keeps: PostgreSQL reads and plans them anew for every statement that writes.
CREATE TABLE {schema}.meta (
    one          boolean PRIMARY KEY,
    bell_format  integer NOT NULL,
    store        text    NOT NULL,
    revision     bigint  NOT NULL,
    last_ms      bigint  NOT NULL,
    offset_ms    bigint  NOT NULL,
    system       text,
    timeline     text    NOT NULL,
    lossy        boolean NOT NULL
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

COMMENT ON TABLE {schema}.meta IS
    'Bellwether: what the store knows of itself. One row; changing it by hand breaks the locks.';
COMMENT ON COLUMN {schema}.meta.revision IS 'the last commit';
COMMENT ON COLUMN {schema}.meta.last_ms IS 'the store''s time at the last commit';
COMMENT ON COLUMN {schema}.meta.offset_ms IS
    'the store''s time minus the server''s: what the server''s clock has jumped, taken back';
COMMENT ON COLUMN {schema}.meta.timeline IS 'the server''s timeline at the last commit';
COMMENT ON COLUMN {schema}.meta.lossy IS
    'whether a fail-over after the last commit could have lost it: no standby had to confirm it';

-- The server's clock, in milliseconds.
CREATE FUNCTION {schema}.wall_ms() RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT pg_catalog.floor(pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000)::bigint
$$;

-- Which branch of history the server is on: it changes when a standby or a backup takes over.
CREATE FUNCTION {schema}.timeline() RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8)
$$;

-- One commit at a time, in the order of their revisions. Unlike a lock on the row of meta this one leaves
-- nothing on the disk, so a conflict costs no fsync. The number is the schema's own.
CREATE FUNCTION {schema}.take_turn() RETURNS void
LANGUAGE sql VOLATILE AS $$
    SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('bellwether {schema}', 0))
$$;

-- Revisions start at the time in microseconds, so that a store which was dropped and made anew goes on above
-- what it gave out before.
INSERT INTO {schema}.meta (one, bell_format, store, revision, last_ms, offset_ms, system, timeline, lossy)
VALUES (true, 2, md5(random()::text || clock_timestamp()::text), {schema}.wall_ms() * 1000,
        {schema}.wall_ms(), 0, {system}, {schema}.timeline(), true);

-- The records of these names, or one row without a record.
CREATE FUNCTION {schema}.read(names bytea[])
RETURNS TABLE (revision bigint, now_ms bigint, offset_ms bigint,
               name bytea, value bytea, version bigint, stamp bigint)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT m.revision, greatest({schema}.wall_ms() + m.offset_ms, m.last_ms), m.offset_ms,
           r.name, r.value, r.version, r.stamp
      FROM {schema}.meta AS m
      LEFT JOIN LATERAL (
           SELECT * FROM {schema}.records WHERE name = ANY (names)
           ) AS r ON true
     WHERE m.one;
END
$$;

-- The first records of a range of names, or one row without a record.
CREATE FUNCTION {schema}.scan(first_name bytea, end_name bytea, most bigint)
RETURNS TABLE (revision bigint, now_ms bigint, offset_ms bigint,
               name bytea, value bytea, version bigint, stamp bigint)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT m.revision, greatest({schema}.wall_ms() + m.offset_ms, m.last_ms), m.offset_ms,
           r.name, r.value, r.version, r.stamp
      FROM {schema}.meta AS m
      LEFT JOIN LATERAL (
           SELECT * FROM {schema}.records
            WHERE name >= first_name AND name < end_name
            ORDER BY name
            LIMIT most
           ) AS r ON true
     WHERE m.one;
END
$$;

-- Takes a jump of the server's clock out of the store's, unless somebody else has done so meanwhile. A clock
-- that was set back goes on from the last commit, if nobody knows better.
CREATE FUNCTION {schema}.shift_clock(seen_offset_ms bigint, shift_ms bigint) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '4s' AS $$
DECLARE
    now_ms bigint := {schema}.wall_ms();
BEGIN
    IF shift_ms = 0 AND NOT EXISTS (SELECT FROM {schema}.meta WHERE now_ms + offset_ms < last_ms) THEN
        RETURN;
    END IF;
    PERFORM {schema}.take_turn();
    now_ms := {schema}.wall_ms();
    UPDATE {schema}.meta
       SET offset_ms = greatest(greatest(offset_ms, last_ms - now_ms) + shift_ms, last_ms - now_ms)
     WHERE one AND offset_ms = seen_offset_ms;
END
$$;

-- Leaves every number that may have been handed out behind, and trusts the server as it is now.
CREATE FUNCTION {schema}.raise_epoch(step bigint, server_system text) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '4s' AS $$
DECLARE
    raised bigint;
BEGIN
    PERFORM {schema}.take_turn();
    UPDATE {schema}.meta
       SET revision = greatest(revision, {schema}.wall_ms() * 1000) + step,
           system = server_system,
           timeline = {schema}.timeline()
     WHERE one
    RETURNING revision INTO raised;
    PERFORM pg_notify('bell_{schema}', '');
    RETURN raised;
END
$$;
