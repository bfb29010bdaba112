-- Runs that were imported have ended, and were billed, elsewhere: their usage is kept and not billed here.
ALTER TABLE usage ADD COLUMN imported bigint NOT NULL DEFAULT 0;
