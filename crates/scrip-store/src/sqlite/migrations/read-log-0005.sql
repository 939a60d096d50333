-- Version 5: the detail of a proxied call.
ALTER TABLE log_records ADD COLUMN detail TEXT;
