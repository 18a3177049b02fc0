package model

import "strings"

// QuotaPrefix begins the keys of quotas, which stand beside those of offerings in what is remembered.
const QuotaPrefix = "quota/"

// QuotaKey names the quota of vCPUs that an instance counts for: AWS has one for each capacity type and group of families.
func QuotaKey(instanceType, capacityType string) string {
	if capacityType == Reserved {
		capacityType = OnDemand // reservations are of on-demand instances
	}
	return QuotaPrefix + quotaGroup(instanceType) + "/" + capacityType
}

// quotaGroup is the group of a type by the letters that its name begins with.
func quotaGroup(instanceType string) string {
	end := strings.IndexFunc(instanceType, func(r rune) bool { return r < 'a' || r > 'z' })
	if end <= 0 {
		return instanceType
	}
	switch family := instanceType[:end]; family {
	case "inf", "trn", "dl", "hpc", "mac", "u":
		return family
	case "g", "gr", "vt":
		return "g"
	case "f", "p", "x":
		return family
	}
	return "standard"
}
