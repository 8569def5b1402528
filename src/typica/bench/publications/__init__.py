"""Published numbers, a file each, and whose they are; `typica.bench.published` reads them."""
