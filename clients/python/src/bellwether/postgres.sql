-- Run once in each database with guarded tables; running it again changes nothing.
SELECT pg_advisory_xact_lock(hashtextextended('bellwether fences', 0));

CREATE TABLE IF NOT EXISTS bell_fences (
    resource text   PRIMARY KEY,
    fence    bigint NOT NULL
);

-- Remembers the fence of a resource, or ends the transaction if a higher one has been seen. Others with the
-- same resource wait here until the transaction ends.
CREATE OR REPLACE FUNCTION bell_check_fence(given_resource text, given_fence bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    seen bigint;
BEGIN
    INSERT INTO bell_fences AS f (resource, fence)
    VALUES (given_resource, given_fence)
        ON CONFLICT (resource) DO UPDATE
       SET fence = excluded.fence
     WHERE excluded.fence >= f.fence;
    IF NOT FOUND THEN
        SELECT fence INTO seen FROM bell_fences WHERE resource = given_resource;
        RAISE EXCEPTION 'refused a stale write: its fence is %, and % has been seen', given_fence, seen
              USING ERRCODE = 'BL009', DETAIL = seen;
    END IF;
END
$$;
