-- Version 9: origins of the pages that may use the keys of an application.

-- Origins, separated by spaces; NULL allows every page. Part of the MAC if there are some.
ALTER TABLE applications ADD COLUMN origins TEXT;
