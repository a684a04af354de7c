# The suite moves a server's clock by a command that only memcached's debugging build knows. Here time passes by
# itself; a second more than asked for, because servers count whole ones.
package RealTime;
use strict;
use warnings;
use MemcachedTest ();

no warnings 'redefine';
*MemcachedTest::mem_move_time = sub { CORE::sleep($_[1] + 1) };

1;
