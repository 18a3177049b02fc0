package respond

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"
)

// Namespace of the metrics. Units are in their names or Count.
const Namespace = "Weir/Interruption"

// The metrics, which are lines in the log that CloudWatch reads by itself (embedded metric
// format): no call, no right, no wait.
const (
	MetricEvents       = "Events"       // events and instances by type and action; ignored and unreadable ones too
	MetricDeadLetters  = "DeadLetters"  // events that could not be read
	MetricRetried      = "Retried"      // messages that have to come again
	MetricEvictions    = "Evictions"    // pods that left
	MetricTimeToCordon = "TimeToCordon" // milliseconds from the start of the invocation to the taint, one value per node
)

// tally is what one invocation counts.
type tally struct {
	events  map[[2]string]int // by type and action
	sums    map[string]int    // by metric
	cordons []float64         // milliseconds, one per node
}

func (v *visit) count(o Outcome) {
	v.tally.events[[2]string{o.Type, string(o.Action)}]++
	v.tally.sums[MetricEvictions] += o.Evicted
}

// cordoned notes how long a taint took.
func (v *visit) cordoned(at time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.tally.cordons = append(v.tally.cordons, float64(at.Sub(v.began).Microseconds())/1000)
}

// directive says to CloudWatch which fields of a line are metrics.
type directive struct {
	Timestamp int64     `json:"Timestamp"`
	Metrics   []metrics `json:"CloudWatchMetrics"`
}

type metrics struct {
	Namespace  string       `json:"Namespace"`
	Dimensions [][]string   `json:"Dimensions"`
	Metrics    []metricName `json:"Metrics"`
}

type metricName struct {
	Name string `json:"Name"`
	Unit string `json:"Unit"`
}

// report writes what was counted.
func (v *visit) report() {
	if v.cfg.Metrics == nil {
		return
	}
	for _, k := range slices.SortedFunc(maps.Keys(v.tally.events), func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	}) {
		v.write([]string{"Cluster", "Type", "Action"}, map[string]string{"Type": k[0], "Action": k[1]}, MetricEvents, "Count", v.tally.events[k])
	}
	for _, name := range slices.Sorted(maps.Keys(v.tally.sums)) {
		if n := v.tally.sums[name]; n > 0 {
			v.write([]string{"Cluster"}, nil, name, "Count", n)
		}
	}
	for values := range slices.Chunk(v.tally.cordons, 100) { // what one line may hold
		v.write([]string{"Cluster"}, nil, MetricTimeToCordon, "Milliseconds", values)
	}
}

func (v *visit) write(dimensions []string, labels map[string]string, name, unit string, value any) {
	line := map[string]any{"Cluster": v.cfg.ClusterName, name: value}
	for k, l := range labels {
		line[k] = l
	}
	line["_aws"] = directive{Timestamp: v.cfg.Clock.Now().UnixMilli(), Metrics: []metrics{{
		Namespace: Namespace, Dimensions: [][]string{dimensions}, Metrics: []metricName{{Name: name, Unit: unit}},
	}}}
	b, err := json.Marshal(line)
	if err == nil {
		_, err = v.cfg.Metrics.Write(append(b, '\n'))
	}
	if err != nil {
		v.cfg.Log.Warn("a metric was not written", zap.String("metric", name), zap.Error(err))
	}
}
