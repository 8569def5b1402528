"""The suites that come with Typica, a TOML file each; `typica.bench._suite` reads them."""
