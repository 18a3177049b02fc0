package convert_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/weir-project/weir/core/kube/convert"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/attach"
)

func decode[T any](t testing.TB, text string) *T {
	t.Helper()
	o := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), o); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return o
}

// storage reads one object per line: a kind's letter and the object. pvc, pv, sc.
func storage(t testing.TB, lines string) *convert.Volumes {
	t.Helper()
	s := convert.NewVolumes()
	for line := range strings.Lines(lines) {
		kind, text, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		switch kind {
		case "pvc":
			o := decode[corev1.PersistentVolumeClaim](t, text)
			s.SetClaim("default", o.Name, convert.PersistentVolumeClaim(o))
		case "pv":
			o := decode[corev1.PersistentVolume](t, text)
			s.SetVolume(o.Name, convert.PersistentVolume(o))
		case "sc":
			o := decode[storagev1.StorageClass](t, text)
			s.SetClass(o.Name, convert.StorageClass(o))
		default:
			t.Fatalf("%q", line)
		}
	}
	return s
}

func claim(name, more string) string {
	return fmt.Sprintf("pvc {metadata: {name: %s}, spec: {%s}}\n", name, more)
}

func bound(name, volume string) string {
	return fmt.Sprintf("pvc {metadata: {name: %s, annotations: {pv.kubernetes.io/bind-completed: 'yes'}}, spec: {volumeName: %s, storageClassName: now}, status: {phase: Bound}}\n", name, volume)
}

// disk is an EBS volume in a zone.
func disk(name, zone string) string {
	return fmt.Sprintf("pv {metadata: {name: %s}, spec: {csi: {driver: ebs.csi.aws.com, volumeHandle: %s}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.ebs.csi.aws.com/zone, operator: In, values: [%s]}]}]}}}}\n", name, name, zone)
}

func affine(spec, term string) string {
	return fmt.Sprintf("pv {metadata: {name: v}, spec: {%s, nodeAffinity: {required: {nodeSelectorTerms: [%s]}}}}\n", spec, term)
}

const (
	wffc = "sc {metadata: {name: wffc}, provisioner: ebs.csi.aws.com, volumeBindingMode: WaitForFirstConsumer}\n"
	now  = "sc {metadata: {name: now}, provisioner: ebs.csi.aws.com}\n"
)

func TestPlaceVolumes(t *testing.T) {
	t.Parallel()
	const zone = "topology.kubernetes.io/zone"
	pvc := func(names ...string) string {
		out := ""
		for _, n := range names {
			out += fmt.Sprintf("{name: v-%s, persistentVolumeClaim: {claimName: %s}}, ", n, n)
		}
		return out
	}
	for _, tt := range []struct {
		name    string
		storage string
		volumes string
		terms   []string
		slots   map[string]int64 // by driver
		no      []string         // beginnings of the reasons
	}{
		{name: "no claim", volumes: "{name: v, emptyDir: {}}"},
		{name: "B022 names a volume and is not bound", storage: now + disk("vol-x", "a") + claim("claim-x", "volumeName: vol-x, storageClassName: now"), volumes: pvc("claim-x"),
			slots: map[string]int64{attach.EBS: 1}, no: []string{"claim not bound: claim claim-x of volume v-claim-x names volume vol-x"}},
		{name: "B022 with the annotation", storage: now + disk("vol-x", "a") + bound("claim-x", "vol-x"), volumes: pvc("claim-x"),
			slots: map[string]int64{attach.EBS: 1}, terms: []string{zone + " In [a]"}},
		{name: "B023 being deleted", storage: wffc + "pvc {metadata: {name: c1, deletionTimestamp: '2026-01-01T00:00:00Z'}, spec: {storageClassName: wffc}}", volumes: pvc("c1"),
			slots: map[string]int64{attach.EBS: 1}, no: []string{"claim is being deleted: claim c1"}},
		{name: "B023 lost", storage: wffc + "pvc {metadata: {name: c2}, spec: {storageClassName: wffc}, status: {phase: Lost}}", volumes: pvc("c2"),
			slots: map[string]int64{attach.EBS: 1}, no: []string{"claim lost its volume: claim c2"}},
		{name: "B023 fine", storage: wffc + claim("c3", "storageClassName: wffc"), volumes: pvc("c3"), slots: map[string]int64{attach.EBS: 1}},
		{name: "B025 three zones", storage: now + disk("v1", "a") + disk("v2", "b") + disk("v3", "c") + bound("c1", "v1") + bound("c2", "v2") + bound("c3", "v3"), volumes: pvc("c1", "c2", "c3"),
			slots: map[string]int64{attach.EBS: 3}, no: []string{"no node reaches all volumes of the pod: v1:a, v2:b, v3:c; a StorageClass with volumeBindingMode WaitForFirstConsumer"}},
		{name: "missing", volumes: pvc("c"), no: []string{"claim missing: claim c of volume v-c"}},
		{name: "several reasons", volumes: pvc("c", "d"), no: []string{"claim missing: claim c", "claim missing: claim d"}},
		{name: "unbound and immediate", storage: now + claim("c", "storageClassName: now"), volumes: pvc("c"), slots: map[string]int64{attach.EBS: 1}, no: []string{"claim not bound: claim c of volume v-c waits for its volume"}},
		{name: "no class", storage: now + claim("c", "storageClassName: ''"), volumes: pvc("c"), no: []string{"claim not bound: claim c of volume v-c names no storage class"}},
		{name: "no class and no default one", storage: now + claim("c", "accessModes: []"), volumes: pvc("c"), no: []string{"claim not bound: claim c of volume v-c names no storage class"}},
		{name: "class missing", storage: claim("c", "storageClassName: gp3"), volumes: pvc("c"), no: []string{"storage class missing: claim c of volume v-c asks for StorageClass gp3"}},
		{name: "the newest default class", storage: claim("c", "accessModes: []") +
			"sc {metadata: {name: old, creationTimestamp: '2025-01-01T00:00:00Z', annotations: {storageclass.kubernetes.io/is-default-class: 'true'}}, provisioner: old.example.com, volumeBindingMode: WaitForFirstConsumer}\n" +
			"sc {metadata: {name: new, creationTimestamp: '2026-01-01T00:00:00Z', annotations: {storageclass.kubernetes.io/is-default-class: 'true'}}, provisioner: new.example.com, volumeBindingMode: WaitForFirstConsumer}\n",
			volumes: pvc("c"), slots: map[string]int64{"new.example.com": 1}},
		{name: "volume missing", storage: bound("c", "gone"), volumes: pvc("c"), no: []string{"volume missing: claim c of volume v-c is bound to volume gone"}},
		{name: "volume being deleted", storage: bound("c", "v") + "pv {metadata: {name: v, deletionTimestamp: '2026-01-01T00:00:00Z'}, spec: {}}", volumes: pvc("c"), no: []string{"volume is being deleted: claim c"}},
		{name: "allowed topologies", storage: "sc {metadata: {name: z}, provisioner: kubernetes.io/aws-ebs, volumeBindingMode: WaitForFirstConsumer, allowedTopologies: [{matchLabelExpressions: [{key: topology.ebs.csi.aws.com/zone, values: [b, a]}]}, {matchLabelExpressions: [{key: rack, values: [r1]}]}]}\n" + claim("c", "storageClassName: z"),
			volumes: pvc("c"), terms: []string{zone + " In [a, b]", "rack In [r1]"}, slots: map[string]int64{attach.EBS: 1}},
		{name: "cross product without what cannot be", storage: "sc {metadata: {name: z}, provisioner: x.example.com, volumeBindingMode: WaitForFirstConsumer, allowedTopologies: [{matchLabelExpressions: [{key: failure-domain.beta.kubernetes.io/zone, values: [a]}]}, {matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [b, c]}]}]}\n" +
			claim("fresh", "storageClassName: z") + disk("v", "c") + bound("o", "v"), volumes: pvc("fresh", "o"), terms: []string{zone + " In [c]"}, slots: map[string]int64{attach.EBS: 1, "x.example.com": 1}},
		{name: "new and old volume apart", storage: "sc {metadata: {name: z}, provisioner: x.example.com, volumeBindingMode: WaitForFirstConsumer, allowedTopologies: [{matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [b]}]}]}\n" +
			claim("fresh", "storageClassName: z") + disk("v", "c") + bound("o", "v"), volumes: pvc("fresh", "o"), slots: map[string]int64{attach.EBS: 1, "x.example.com": 1},
			no: []string{"no node reaches all volumes of the pod: new volume of claim fresh:b, v:c"}},
		{name: "in-tree EBS volume", storage: bound("c", "v") + affine("awsElasticBlockStore: {volumeID: vol-1}", "{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a]}]}"),
			volumes: pvc("c"), terms: []string{zone + " In [a]"}, slots: map[string]int64{attach.EBS: 1}},
		{name: "EBS volume of the pod itself", volumes: "{name: v, awsElasticBlockStore: {volumeID: vol-1}}", slots: map[string]int64{attach.EBS: 1}},
		{name: "a claim used twice takes one place", storage: wffc + claim("c", "storageClassName: wffc"), volumes: pvc("c") + "{name: again, persistentVolumeClaim: {claimName: c}}", slots: map[string]int64{attach.EBS: 1}},
		{name: "local volume without its host", storage: bound("c", "v") + affine("local: {path: /d}", "{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n1]}, {key: topology.kubernetes.io/zone, operator: In, values: [a]}]}"),
			volumes: pvc("c"), terms: []string{zone + " In [a]"}},
		{name: "local volume of a host alone", storage: bound("c", "v") + affine("local: {path: /d}", "{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n1]}]}"), volumes: pvc("c")},
		{name: "other volume of a host", storage: bound("c", "v") + affine("csi: {driver: x.example.com, volumeHandle: h}", "{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n1]}]}"),
			volumes: pvc("c"), terms: []string{"kubernetes.io/hostname In [n1]"}, slots: map[string]int64{"x.example.com": 1}},
		{name: "no node reaches it", storage: bound("c", "v") + affine("nfs: {server: s, path: /}", "{}"), volumes: pvc("c"), no: []string{"volume out of reach: claim c of volume v-c is bound to volume v: its node affinity has no terms"}},
		{name: "labels of old say where it is", storage: bound("c", "v") + "pv {metadata: {name: v, labels: {failure-domain.beta.kubernetes.io/zone: b__a, failure-domain.beta.kubernetes.io/region: r}}, spec: {awsElasticBlockStore: {volumeID: vol-1}}}",
			volumes: pvc("c"), terms: []string{"topology.kubernetes.io/region In [r], " + zone + " In [a, b]"}, slots: map[string]int64{attach.EBS: 1}},
		{name: "beside its node affinity", storage: bound("c", "v") + strings.Replace(disk("v", "a"), "name: v", "name: v, labels: {topology.kubernetes.io/zone: a__b}", 1), volumes: pvc("c"), terms: []string{zone + " In [a]"}, slots: map[string]int64{attach.EBS: 1}},
		{name: "against its node affinity", storage: bound("c", "v") + strings.Replace(disk("v", "a"), "name: v", "name: v, labels: {topology.kubernetes.io/zone: b}", 1), volumes: pvc("c"), slots: map[string]int64{attach.EBS: 1},
			no: []string{"volume out of reach: claim c of volume v-c is bound to volume v: its labels name another zone"}},
		{name: "a default class of old", storage: claim("c", "accessModes: []") + "sc {metadata: {name: old, annotations: {storageclass.beta.kubernetes.io/is-default-class: 'true'}}, provisioner: old.example.com, volumeBindingMode: WaitForFirstConsumer}",
			volumes: pvc("c"), slots: map[string]int64{"old.example.com": 1}},
		{name: "a file system is anywhere", storage: bound("c", "v") + "pv {metadata: {name: v}, spec: {nfs: {server: s, path: /}}}", volumes: pvc("c")},
		{name: "ephemeral, not made yet", storage: wffc, volumes: "{name: tmp, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: wffc}}}}", slots: map[string]int64{attach.EBS: 1}},
		{name: "ephemeral, made", storage: wffc + "pvc {metadata: {name: pod-tmp, ownerReferences: [{apiVersion: v1, kind: Pod, name: pod, uid: u, controller: true}]}, spec: {storageClassName: gone}}",
			volumes: "{name: tmp, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: wffc}}}}", no: []string{"storage class missing: claim pod-tmp"}},
		{name: "ephemeral, the name is taken", storage: wffc + claim("pod-tmp", "storageClassName: wffc"), volumes: "{name: tmp, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: wffc}}}}",
			slots: map[string]int64{attach.EBS: 1}, no: []string{"claim of another: claim pod-tmp"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pod := podOf(t, "metadata: {name: pod, namespace: default}\nspec:\n  containers: [{name: a}]\n  volumes: ["+tt.volumes+"]")
			shape, err := convert.ShapeOf(pod)
			if err != nil {
				t.Fatal(err)
			}
			p := &model.Pod{}
			shape.Apply(p)
			convert.Metadata(&pod.ObjectMeta, p)
			before := p.Requests
			storage(t, tt.storage).Place(p, shape.Volumes)
			var terms []string
			if p.Topology != nil {
				for _, v := range p.Topology.VolumeTerms {
					terms = append(terms, v.String())
				}
			}
			if d := cmp.Diff(tt.terms, terms); d != "" {
				t.Errorf("terms: %s", d)
			}
			for driver, n := range tt.slots {
				before = before.With(attach.Resource(driver), n)
			}
			if !before.Equal(p.Requests) {
				t.Errorf("requests %v, want %v", p.Requests, before)
			}
			var no []string
			for i, u := range p.Unsupported {
				if u.Filter != model.FilterVolumes {
					t.Errorf("filter %s", u.Filter)
				}
				if i < len(tt.no) && strings.HasPrefix(u.Message, tt.no[i]) {
					u.Message = tt.no[i]
				}
				no = append(no, u.Message)
			}
			if d := cmp.Diff(tt.no, no); d != "" {
				t.Errorf("reasons: %s", d)
			}
		})
	}
}

// TestPlacesAreThoseOfEveryVolume: a node is in one of the places exactly when it
// satisfies some term of every volume.
func TestPlacesAreThoseOfEveryVolume(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		type term struct{ zones, racks []string }
		pick := func(prefix, label string) []string {
			return rapid.SliceOfNDistinct(rapid.Map(rapid.IntRange(0, 2), func(i int) string { return fmt.Sprintf("%s%d", prefix, i) }), 0, 2, rapid.ID).Draw(t, label)
		}
		var volumes [][]term
		s := convert.NewVolumes()
		var mounts []convert.PodVolume
		for v := range rapid.IntRange(1, 4).Draw(t, "volumes") {
			var terms []term
			class := &storagev1.StorageClass{Provisioner: "x.example.com"}
			mode := storagev1.VolumeBindingWaitForFirstConsumer
			class.VolumeBindingMode = &mode
			for range rapid.IntRange(1, 3).Draw(t, "terms") {
				m := term{pick("z", "zones"), pick("r", "racks")}
				if len(m.zones)+len(m.racks) == 0 {
					continue
				}
				terms = append(terms, m)
				var top corev1.TopologySelectorTerm
				for key, values := range map[string][]string{"topology.kubernetes.io/zone": m.zones, "rack": m.racks} {
					if len(values) > 0 {
						top.MatchLabelExpressions = append(top.MatchLabelExpressions, corev1.TopologySelectorLabelRequirement{Key: key, Values: values})
					}
				}
				class.AllowedTopologies = append(class.AllowedTopologies, top)
			}
			if len(terms) == 0 {
				terms = []term{{}}
			}
			volumes = append(volumes, terms)
			name := fmt.Sprintf("c%d", v)
			s.SetClass(name, convert.StorageClass(class))
			s.SetClaim("ns", name, convert.PersistentVolumeClaim(&corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &name}}))
			mounts = append(mounts, convert.PodVolume{Name: name, Claim: name})
		}
		p := &model.Pod{Namespace: "ns", Name: "p"}
		s.Place(p, mounts)
		has := func(list []string, v string) bool {
			for _, x := range list {
				if x == v {
					return true
				}
			}
			return len(list) == 0
		}
		for z := range 3 {
			for r := range 3 {
				labels := map[string]string{"topology.kubernetes.io/zone": fmt.Sprintf("z%d", z), "rack": fmt.Sprintf("r%d", r)}
				want := true
				for _, terms := range volumes {
					some := false
					for _, m := range terms {
						some = some || has(m.zones, labels["topology.kubernetes.io/zone"]) && has(m.racks, labels["rack"])
					}
					want = want && some
				}
				got := len(p.Unsupported) == 0
				if got && p.Topology != nil {
					got = false
					for _, v := range p.Topology.VolumeTerms {
						got = got || v.LabelsSatisfy(labels) == nil
					}
				}
				if got != want {
					t.Fatalf("%v: %t, want %t; %v", labels, got, want, p.Unsupported)
				}
			}
		}
	})
}

func TestCSINode(t *testing.T) {
	t.Parallel()
	got := convert.CSINode(decode[storagev1.CSINode](t, "{spec: {drivers: [{name: ebs.csi.aws.com, nodeID: i, allocatable: {count: 25}}, {name: efs.csi.aws.com, nodeID: i}]}}"))
	if d := cmp.Diff(map[string]int64{"ebs.csi.aws.com": 25}, got); d != "" {
		t.Error(d)
	}
	if convert.CSINode(&storagev1.CSINode{}) == nil {
		t.Error("a node without drivers has reported")
	}
}
