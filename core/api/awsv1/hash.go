package awsv1

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/mitchellh/hashstructure/v2"
)

// Hash returns the value of the annotation karpenter.k8s.aws/ec2nodeclass-hash: a fingerprint of what makes nodes drift when
// it changes. clusterCA is the certificate bundle that user data carries. The function is our own, so the version beside
// it is keys.EC2NodeClassHashWeir1 and never one of Karpenter's: a change of owner then rewrites the annotations and drifts
// no node. Order in lists, spaces in kubelet's text and unset fields do not count. Call Default first on objects that did not
// pass an API server.
func (c *EC2NodeClass) Hash(clusterCA string) (string, error) {
	var kubelet string
	var err error
	if c.Spec.Kubelet != nil {
		kubelet, err = canonicalJSON(c.Spec.Kubelet.Raw)
	}
	if err != nil {
		return "", fmt.Errorf("hashing ec2nodeclass %s: kubelet: %w", c.Name, err)
	}
	spec := c.Spec.DeepCopy() // quantities cache their text, so a shared object is not hashed in place
	input := struct {
		Spec      *EC2NodeClassSpec
		Family    string
		ClusterCA string
		Kubelet   string
	}{spec, c.Spec.Family(), clusterCA, kubelet}
	sum, err := hashstructure.Hash(input, hashstructure.FormatV2, &hashstructure.HashOptions{
		SlicesAsSets: true, IgnoreZeroValue: true, ZeroNil: true,
	})
	if err != nil {
		return "", fmt.Errorf("hashing ec2nodeclass %s: %w", c.Name, err)
	}
	return strconv.FormatUint(sum, 10), nil
}

// canonicalJSON returns the object with sorted keys and no spaces, "" for none.
func canonicalJSON(raw []byte) (string, error) {
	if len(raw) == 0 {
		return "", nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return "", err
	}
	out, err := json.Marshal(value)
	return string(out), err
}
