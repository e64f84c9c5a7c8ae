// parse
