package workload

import "math"

// random is a stream of splitmix64.
type random struct{ state uint64 }

func (r *random) next() uint64 {
	r.state += 0x9E3779B97F4A7C15
	z := r.state
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// float is uniform in [0, 1), with 53 random bits.
func (r *random) float() float64 { return float64(r.next()>>11) / (1 << 53) }

// below is uniform in 0 … n-1.
func (r *random) below(n int) int { return int(r.float() * float64(n)) }

// table is values with weights that sum up to 1,000.
type table []struct {
	value  float64
	weight int
}

func (r *random) from(t table) float64 {
	x, i := r.below(1000), 0
	for ; x >= t[i].weight; i++ {
		x -= t[i].weight
	}
	return t[i].value
}

// Request is what a pod asks for.
type Request struct {
	CPU    int // milli
	Memory int // MiB
}

var (
	cpuTable = table{{10, 40}, {25, 60}, {50, 100}, {100, 220}, {200, 90}, {250, 130}, {500, 150}, {1000, 110}, {2000, 60}, {4000, 28}, {8000, 9}, {16000, 3}}
	// ratioTable is GiB per vCPU.
	ratioTable = table{{0.5, 50}, {1, 200}, {2, 350}, {4, 280}, {8, 120}}
)

// request draws a size with a long tail; three in ten are a little off the round
// numbers, as an autoscaler of requests leaves them.
func (r *random) request() Request {
	cpu := r.from(cpuTable)
	memory := max(32, 16*math.Ceil(cpu*r.from(ratioTable)*1024/1000/16))
	if r.float() < 0.3 {
		cpu = max(5, math.Round(cpu*r.jitter()))
		memory = max(16, math.Round(memory*r.jitter()))
	}
	return Request{int(cpu), int(memory)}
}

// jitter is a factor of 0.7 to 1.3. The conversion keeps processors that can multiply
// and add in one step from rounding differently.
func (r *random) jitter() float64 { return 0.7 + float64(0.6*r.float()) }
