package convert_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/weir-project/weir/core/kube/convert"
)

// units are what amounts are counted in, per resource.
var units = map[corev1.ResourceName]string{
	"cpu": "%dm", "memory": "%dMi", "ephemeral-storage": "%dMi", "hugepages-2Mi": "%dMi", "nvidia.com/gpu": "%d",
}

// drawn is some amounts, by resource, in those units.
type drawn map[corev1.ResourceName]int64

func draw(t *rapid.T, name string) drawn {
	out := drawn{}
	for _, r := range []corev1.ResourceName{"cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "nvidia.com/gpu"} {
		if rapid.IntRange(0, 2).Draw(t, name+" has "+string(r)) > 0 {
			out[r] = int64(rapid.IntRange(0, 4000).Draw(t, name+" "+string(r)))
		}
	}
	return out
}

func (d drawn) list() corev1.ResourceList {
	out := corev1.ResourceList{}
	for r, n := range d {
		out[r] = apiresource.MustParse(fmt.Sprintf(units[r], n))
	}
	return out
}

// TestRequestsOfRandomPods compares with the rule as Kubernetes documents it, written
// out for one resource at a time: at each moment of a pod's life those containers count
// that run then, sidecars from their turn on; the largest moment counts, or what the pod
// as a whole asks for; the overhead comes on top.
func TestRequestsOfRandomPods(t *testing.T) {
	t.Parallel()
	always := corev1.ContainerRestartPolicyAlways
	podLevel := map[corev1.ResourceName]bool{"cpu": true, "memory": true, "hugepages-2Mi": true}
	rapid.Check(t, func(rt *rapid.T) {
		p := &corev1.Pod{}
		var inits, mains []drawn
		var sidecar []bool
		for i := range rapid.IntRange(0, 4).Draw(rt, "init containers") {
			d := draw(rt, fmt.Sprint("init ", i))
			c := corev1.Container{Name: fmt.Sprint("i", i), Resources: corev1.ResourceRequirements{Requests: d.list()}}
			s := rapid.Bool().Draw(rt, "sidecar")
			if s {
				c.RestartPolicy = &always
			}
			inits, sidecar, p.Spec.InitContainers = append(inits, d), append(sidecar, s), append(p.Spec.InitContainers, c)
		}
		for i := range rapid.IntRange(1, 3).Draw(rt, "containers") {
			d := draw(rt, fmt.Sprint("container ", i))
			mains = append(mains, d)
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Resources: corev1.ResourceRequirements{Requests: d.list()}})
		}
		var whole, overhead drawn
		if rapid.Bool().Draw(rt, "pod level") {
			whole = draw(rt, "pod")
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: whole.list()}
		}
		if rapid.Bool().Draw(rt, "overhead") {
			overhead = draw(rt, "overhead")
			p.Spec.Overhead = overhead.list()
		}
		got, err := convert.Requests(p)
		if err != nil {
			rt.Fatal(err)
		}
		for r := range units {
			running, most := int64(0), int64(0) // sidecars so far; the largest moment
			for i, d := range inits {
				most = max(most, running+d[r])
				if sidecar[i] {
					running += d[r]
				}
			}
			for _, d := range mains {
				running += d[r]
			}
			want := max(most, running)
			if n, ok := whole[r]; ok && podLevel[r] {
				want = n
			}
			want += overhead[r]
			if r == "memory" || r == "ephemeral-storage" || r == "hugepages-2Mi" {
				want <<= 20
			}
			if have := got.Get(string(r)); have != want {
				rt.Fatalf("%s: %d, want %d", r, have, want)
			}
		}
		if got.Get("pods") != 1 {
			rt.Fatalf("%d pods", got.Get("pods"))
		}
	})
}

// TestRequestsOfAResize: while a resize is under way the largest of what is asked for,
// admitted and in force counts; one that will never be admitted does not count.
func TestRequestsOfAResize(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status string
		cpu    int64
	}{
		"nothing known yet":             {`{}`, 2000},
		"growing, not admitted":         {`{containerStatuses: [{name: a, allocatedResources: {cpu: 1}, resources: {requests: {cpu: 1}}}]}`, 2000},
		"shrinking, not in force":       {`{containerStatuses: [{name: a, allocatedResources: {cpu: 2}, resources: {requests: {cpu: 3}}}]}`, 3000},
		"admitted more than asked now":  {`{containerStatuses: [{name: a, allocatedResources: {cpu: 5}, resources: {requests: {cpu: 1}}}]}`, 5000},
		"will never be admitted":        {`{conditions: [{type: PodResizePending, status: "True", reason: Infeasible}], containerStatuses: [{name: a, allocatedResources: {cpu: 1}, resources: {requests: {cpu: 1}}}]}`, 1000},
		"has to wait":                   {`{conditions: [{type: PodResizePending, status: "True", reason: Deferred}], containerStatuses: [{name: a, allocatedResources: {cpu: 1}, resources: {requests: {cpu: 1}}}]}`, 2000},
		"the status of another":         {`{containerStatuses: [{name: b, allocatedResources: {cpu: 9}}]}`, 2000},
		"amounts without those running": {`{containerStatuses: [{name: a, allocatedResources: {cpu: 4}}]}`, 4000},
	} {
		p := podOf(t, "spec: {containers: [{name: a, resources: {requests: {cpu: 2}}}]}\nstatus: "+c.status)
		got, err := convert.Requests(p)
		if err != nil || got.Get("cpu") != c.cpu {
			t.Errorf("%s: %dm (%v), want %dm", name, got.Get("cpu"), err, c.cpu)
		}
	}
}
