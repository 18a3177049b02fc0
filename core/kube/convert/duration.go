package convert

import (
	"strconv"
	"time"
)

// DurationText writes a duration in the form that the schemas of karpenter.sh
// accept: whole hours, minutes and seconds, largest first, without zero parts.
func DurationText(d time.Duration) string {
	if d < time.Second {
		return "0s"
	}
	var s string
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if n := d / u.unit; n > 0 {
			s += strconv.FormatInt(int64(n), 10) + u.name
			d -= n * u.unit
		}
	}
	return s
}
