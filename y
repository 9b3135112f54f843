approved	20:1 false (u=bob, f="f 2")
late	20:1 match (u=bob, f="f 2")
