def write_report(lake, out, reveal=False):
    return out
