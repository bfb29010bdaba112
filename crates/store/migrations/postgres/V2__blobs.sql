-- File contents and manifests, under the digest of their content. A run may be taken over on another machine, so they cannot
-- lie in the directory of one. The same content is kept once for all, whoever wrote it.
CREATE TABLE blobs (
    digest  bytea NOT NULL PRIMARY KEY,
    content bytea NOT NULL
);
