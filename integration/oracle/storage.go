package oracle

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/core/model/attach"
)

// storage draws volumes: bound ones, ones that wait for their pod, generic ephemeral ones.
func (g *generator) storage(w *workload) {
	if !g.one(15) {
		return
	}
	w.replicas = min(w.replicas, 8)
	zone := pick(g, zones...)
	class := pick(g, "wait", "wait", "wait-narrow", "immediate", "missing")
	switch g.IntN(3) {
	case 0: // bound volumes, all in one zone or each in one of its own
		same := g.one(50)
		w.claims = func(p *corev1.Pod) {
			z := zone
			if !same {
				z = pick(g, zones...)
			}
			g.boundClaim(p, "data", z)
			if g.one(15) {
				g.boundClaim(p, "more", z)
			}
		}
	case 1:
		w.claims = func(p *corev1.Pod) {
			for i := range g.between(1, 2) {
				name := fmt.Sprintf("%s-new-%d", p.Name, i)
				g.d.PVCs = append(g.d.PVCs, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: name}, Spec: claimSpec(class)})
				mount(p, fmt.Sprintf("new-%d", i), name)
			}
		}
	default:
		w.spec.Volumes = append(w.spec.Volumes, corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{
			Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claimSpec(class)}}}})
	}
}

func claimSpec(class string) corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class,
		Resources: corev1.VolumeResourceRequirements{Requests: quantities("storage", "1Gi")}}
}

func mount(p *corev1.Pod, volume, claim string) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
}

// boundClaim gives a pod a volume that exists in a zone.
func (g *generator) boundClaim(p *corev1.Pod, volume, zone string) {
	name := p.Namespace + "-" + p.Name + "-" + volume
	claim := p.Name + "-" + volume
	g.d.Volumes = append(g.d.Volumes, volumeIn(zone, name, corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: p.Namespace, Name: claim}, "wait"))
	pvc := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: claim}, Spec: claimSpec("wait")}
	pvc.Spec.VolumeName = name
	g.d.PVCs = append(g.d.PVCs, pvc)
	mount(p, volume, claim)
}

// volumeIn is an EBS volume of a zone for a claim.
func volumeIn(zone, name string, claim corev1.ObjectReference, class string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: quantities("storage", "1Gi"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: class,
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain, ClaimRef: &claim,
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: attach.EBS, VolumeHandle: name}},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: zoneKey(name), Operator: "In", Values: []string{zone}}}}}}}}}
}

// zoneKey is the label that volumes name their zone by: either of the two that drivers use.
func zoneKey(name string) string {
	if len(name)%2 == 0 {
		return "topology.ebs.csi.aws.com/zone"
	}
	return model.LabelZone
}

// running draws the pods of a node that is there.
func (g *generator) running(n *corev1.Node) {
	for i := range g.between(0, 5) {
		w := &workload{namespace: pick(g, namespaces...).Name, labels: map[string]string{"app": fmt.Sprintf("app-%d", g.IntN(apps)), "version": pick(g, "v1", "v2")}}
		w.spec.Containers = []corev1.Container{container(pick(g, "100m", "250m"), pick(g, "64Mi", "256Mi"))}
		if g.one(20) {
			g.topologyRules(w)
		}
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: fmt.Sprintf("%s-run-%d", n.Name, i), Labels: w.labels}, Spec: w.spec}
		p.Spec.NodeName = n.Name
		if g.one(15) {
			g.boundClaim(p, "data", n.Labels[model.LabelZone])
		}
		g.d.Running = append(g.d.Running, p)
	}
}
