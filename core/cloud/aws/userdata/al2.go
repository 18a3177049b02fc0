package userdata

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// al2 calls the image's own bootstrap script, after whatever the user runs.
func al2(in *Input) (Output, error) {
	parts, err := userParts(in.User, false)
	if err != nil {
		return Output{}, err
	}
	args := []string{quote(in.Cluster.Name), "--apiserver-endpoint", quote(in.Cluster.Endpoint), "--b64-cluster-ca", quote(in.Cluster.CA)}
	dns := in.dns()
	if len(dns) > 0 {
		address, err := netip.ParseAddr(dns[0])
		if err != nil {
			return Output{}, &Error{Field: "spec.kubelet.clusterDNS", Message: err.Error()}
		}
		if address.Is6() {
			args = append(args, "--ip-family", "ipv6")
		}
		args = append(args, "--dns-cluster-ip", quote(dns[0]))
	}
	args = append(args, "--use-max-pods", "false", "--kubelet-extra-args", quote(strings.Join(in.kubeletFlags(), " ")))
	if in.RAID0 {
		args = append(args, "--local-disks", "raid0")
	}
	script := "#!/bin/bash -xe\nexec > >(tee /var/log/user-data.log | logger -t user-data -s 2>/dev/console) 2>&1\n/etc/eks/bootstrap.sh " + strings.Join(args, " ") + "\n"
	return Output{Text: archive(append(parts, part{kind: typeScript, body: script}))}, nil
}

// quote makes one word of the shell of a text.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// kubeletFlags is the settings that images without a configuration file take as flags.
func (in *Input) kubeletFlags() []string {
	k := in.Kubelet
	var taints []string
	for _, t := range in.taints() {
		s := t.Key
		if t.Value != "" {
			s += "=" + t.Value
		}
		taints = append(taints, s+":"+string(t.Effect))
	}
	flags := []string{"--node-labels=" + in.nodeLabels(), "--register-with-taints=" + strings.Join(taints, ","), "--max-pods=" + strconv.Itoa(int(in.MaxPods))}
	add := func(name, value string) {
		if value != "" {
			flags = append(flags, "--"+name+"="+value)
		}
	}
	number := func(name string, n *int32) {
		if n != nil {
			add(name, strconv.Itoa(int(*n)))
		}
	}
	if k.PodsPerCore > 0 {
		add("pods-per-core", strconv.Itoa(int(k.PodsPerCore)))
	}
	add("system-reserved", pairs(k.SystemReserved, "="))
	add("kube-reserved", pairs(k.KubeReserved, "="))
	add("eviction-hard", pairs(k.EvictionHard, "<"))
	add("eviction-soft", pairs(k.EvictionSoft, "<"))
	add("eviction-soft-grace-period", pairs(k.EvictionSoftGracePeriod, "="))
	if k.EvictionMaxPodGracePeriod > 0 {
		add("eviction-max-pod-grace-period", strconv.Itoa(int(k.EvictionMaxPodGracePeriod)))
	}
	number("image-gc-high-threshold", k.ImageGCHighThresholdPercent)
	number("image-gc-low-threshold", k.ImageGCLowThresholdPercent)
	if k.CPUCFSQuota != nil {
		add("cpu-cfs-quota", strconv.FormatBool(*k.CPUCFSQuota))
	}
	return flags
}

// windows calls the image's own bootstrap script behind the user's.
func windows(in *Input) (Output, error) {
	if strings.Contains(strings.ToLower(in.User), "<powershell>") || strings.Contains(strings.ToLower(in.User), "</powershell>") {
		return Output{}, bad("may not contain the <powershell> tags: they are written around it")
	}
	var b strings.Builder
	b.WriteString("<powershell>\n")
	if user := strings.TrimRight(in.User, "\n"); user != "" {
		b.WriteString(user + "\n")
	}
	b.WriteString("[string]$EKSBootstrapScriptFile = \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\"\n")
	fmt.Fprintf(&b, "& $EKSBootstrapScriptFile -EKSClusterName %s -APIServerEndpoint %s -Base64ClusterCA %s -KubeletExtraArgs %s",
		quotePower(in.Cluster.Name), quotePower(in.Cluster.Endpoint), quotePower(in.Cluster.CA), quotePower(strings.Join(in.kubeletFlags(), " ")))
	if dns := in.dns(); len(dns) > 0 {
		b.WriteString(" -DNSClusterIP " + quotePower(dns[0]))
	}
	b.WriteString("\n</powershell>\n")
	return Output{Text: []byte(b.String())}, nil
}

// quotePower makes one literal word of PowerShell of a text.
func quotePower(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
