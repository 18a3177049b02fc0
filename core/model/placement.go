package model

import (
	"fmt"
	"strconv"
	"strings"
)

// PlacementGroup is a placement group of EC2 that machines of a class are started in.
type PlacementGroup struct {
	ID         string // pg-...
	Strategy   string // cluster, partition or spread
	Partitions int    // of strategy partition, else 0
}

// PlacementPartition is the strategy whose groups have partitions.
const PlacementPartition = "partition"

// maxPartitions is how many partitions EC2 lets a group have.
const maxPartitions = 7

// String writes the group as ParsePlacementGroup reads it.
func (g PlacementGroup) String() string {
	if g.Partitions == 0 {
		return g.ID + " " + g.Strategy
	}
	return fmt.Sprintf("%s %s %d", g.ID, g.Strategy, g.Partitions)
}

// ParsePlacementGroup reads "ID STRATEGY" or "ID partition COUNT".
func ParsePlacementGroup(text string) (*PlacementGroup, error) {
	f := strings.Fields(text)
	bad := func(expected string) (*PlacementGroup, error) {
		return nil, fmt.Errorf("placement group %q: expected %s", text, expected)
	}
	if len(f) < 2 || len(f) > 3 || !strings.HasPrefix(f[0], "pg-") {
		return bad("an id, a strategy and, where it has partitions, their number")
	}
	g := &PlacementGroup{ID: f[0], Strategy: f[1]}
	if (g.Strategy == PlacementPartition) != (len(f) == 3) {
		return bad("a number of partitions with strategy partition and with no other")
	}
	if len(f) == 3 {
		n, err := strconv.Atoi(f[2])
		if err != nil || n < 1 || n > maxPartitions {
			return bad("1 to 7 partitions")
		}
		g.Partitions = n
	}
	return g, nil
}
