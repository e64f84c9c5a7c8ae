// dates
