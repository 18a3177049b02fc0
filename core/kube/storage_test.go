package kube

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/weir-project/weir/core/cluster"
	"github.com/weir-project/weir/core/model/attach"
)

// TestPodsHearOfTheirVolumes feeds the watcher as its caches do and follows what the
// sink hears of one pod.
func TestPodsHearOfTheirVolumes(t *testing.T) {
	t.Parallel()
	clients, err := Connect(&rest.Config{Host: "https://server.invalid"}) // nothing is asked of it
	if err != nil {
		t.Fatal(err)
	}
	var s sunk
	w := NewWatcher(clients, s.take, WatchOptions{OnError: func(kind, name string, err error) { t.Errorf("%s %s: %v", kind, name, err) }})
	kinds := map[string]*kind{}
	for _, k := range w.kinds {
		kinds[k.name] = k
	}
	version := 0
	feed := func(name string, obj runtime.Object) {
		t.Helper()
		version++
		obj.(metav1.Object).SetResourceVersion(fmt.Sprint(version))
		e, err := w.transform(kinds[name])(obj)
		if err != nil {
			t.Fatal(err)
		}
		handler{w, kinds[name]}.OnAdd(e, false)
	}
	remove := func(name, ns, object string) {
		handler{w, kinds[name]}.OnDelete(&entry{namespace: ns, name: object})
	}
	pod := func(ready bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}}}
		if ready {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		return p
	}
	class, later := "wffc", storagev1.VolumeBindingWaitForFirstConsumer
	claim := func(volume string) *corev1.PersistentVolumeClaim {
		o := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, VolumeName: volume}}
		if volume != "" {
			o.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
		}
		return o
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: attach.EBS}},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "topology.ebs.csi.aws.com/zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}}}}}}}}
	attached := func(volume string) *storagev1.VolumeAttachment {
		o := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: storagev1.VolumeAttachmentSpec{Attacher: attach.EBS, NodeName: "n"}}
		if volume != "" {
			o.Spec.Source.PersistentVolumeName = &volume
		}
		return o
	}
	const slot = " attachable-volumes.weir.dev/ebs.csi.aws.com=1"
	const zone = " topology.kubernetes.io/zone In [a]"
	steps := []struct {
		name string
		do   func()
		want []string
	}{
		{"the pod comes first", func() { feed("Pod", pod(false)) }, []string{"claim missing"}},
		{"another claim", func() { o := claim(""); o.Name = "other"; feed("PersistentVolumeClaim", o) }, nil},
		{"its claim", func() { feed("PersistentVolumeClaim", claim("")) }, []string{"storage class missing"}},
		{"the class", func() {
			feed("StorageClass", &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: attach.EBS, VolumeBindingMode: &later})
		}, []string{slot}},
		{"the claim again, the same", func() { feed("PersistentVolumeClaim", claim("")) }, nil},
		{"the claim is bound before the volume is seen", func() { feed("PersistentVolumeClaim", claim("v")) }, []string{"volume missing on v"}},
		{"the volume", func() { feed("PersistentVolume", volume) }, []string{zone + slot + " on v"}},
		{"the pod is ready", func() { feed("Pod", pod(true)) }, []string{zone + slot + " ready on v"}},
		{"the class goes", func() { remove("StorageClass", "", class) }, nil},
		{"the volume goes", func() { remove("PersistentVolume", "", "v") }, []string{"volume missing ready on v"}},
		{"the claim goes", func() { remove("PersistentVolumeClaim", "ns", "c") }, []string{"claim missing ready"}},
		{"a CSINode", func() {
			n := int32(7)
			feed("CSINode", &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: attach.EBS, Allocatable: &storagev1.VolumeNodeResources{Count: &n}}}}})
		}, []string{"n map[ebs.csi.aws.com:7]"}},
		{"which goes", func() { remove("CSINode", "", "n") }, []string{"no n"}},
		{"the volume is attached", func() { feed("VolumeAttachment", attached("v")) }, []string{"a: v on n"}},
		{"the attachment's status changes", func() { feed("VolumeAttachment", attached("v")) }, []string{"a: v on n"}},
		{"it is detached", func() { remove("VolumeAttachment", "", "a") }, []string{"no attachment a"}},
		{"a volume without a name", func() { feed("VolumeAttachment", attached("")) }, []string{"no attachment a"}},
		{"the pod goes", func() { remove("Pod", "ns", "p") }, []string{"no ns/p"}},
		{"news of the claim concern nobody now", func() { feed("PersistentVolumeClaim", claim("")) }, nil},
	}
	for _, step := range steps {
		s.changes = nil
		step.do()
		var got []string
		for _, c := range s.changes {
			switch c := c.(type) {
			case cluster.UpsertPod:
				text := ""
				for _, u := range c.Pod.Unsupported {
					phrase, _, _ := strings.Cut(u.Message, ":")
					text += phrase
				}
				if c.Pod.Topology != nil {
					text += " " + c.Pod.Topology.VolumeTerms[0].String()
				}
				for _, a := range c.Pod.Requests.Ext {
					text += fmt.Sprintf(" %s=%d", a.Name, a.Value)
				}
				if c.Pod.Ready {
					text += " ready"
				}
				for _, v := range c.Pod.Volumes {
					text += " on " + v
				}
				got = append(got, text)
			case cluster.DeletePod:
				got = append(got, "no "+c.ID)
			case cluster.UpsertVolumeLimits:
				got = append(got, fmt.Sprint(c.Node, " ", c.Limits))
			case cluster.UpsertAttachment:
				got = append(got, fmt.Sprintf("%s: %s on %s", c.Name, c.Volume, c.Node))
			case cluster.DeleteAttachment:
				got = append(got, "no attachment "+c.Name)
			case cluster.DeleteVolumeLimits:
				got = append(got, "no "+c.Node)
			default:
				t.Errorf("%s: %T", step.name, c)
			}
		}
		if d := cmp.Diff(step.want, got); d != "" {
			t.Errorf("%s: %s", step.name, d)
		}
	}
	if n := len(w.storage.pods) + len(w.storage.users) + len(w.storage.claims); n != 0 {
		t.Errorf("%d things are remembered for nothing", n)
	}
}
