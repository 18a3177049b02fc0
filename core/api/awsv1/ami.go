package awsv1

import (
	"fmt"
	"strings"
)

// The image families: values of amiFamily.
const (
	FamilyAL2          = "AL2"
	FamilyAL2023       = "AL2023"
	FamilyBottlerocket = "Bottlerocket"
	FamilyCustom       = "Custom"
	FamilyWindows2019  = "Windows2019"
	FamilyWindows2022  = "Windows2022"
	FamilyWindows2025  = "Windows2025"
)

// VersionLatest is the version of an alias that follows each release.
const VersionLatest = "latest"

var aliasFamilies = map[string]string{
	"al2": FamilyAL2, "al2023": FamilyAL2023, "bottlerocket": FamilyBottlerocket,
	"windows2019": FamilyWindows2019, "windows2022": FamilyWindows2022, "windows2025": FamilyWindows2025,
}

// Alias is the parsed value of amiSelectorTerms[].alias.
type Alias struct {
	// Family is one of the Family constants.
	Family string
	// Version as AWS names it: "latest", "v20240703" for Amazon Linux, "1.20.3" without a leading v for Bottlerocket.
	Version string
}

// ParseAlias reads family@version. The family is in lower case; Windows families have only the version latest.
func ParseAlias(text string) (Alias, error) {
	name, version, ok := strings.Cut(text, "@")
	if !ok || name == "" || version == "" {
		return Alias{}, fmt.Errorf("alias %q: expected family@version", text)
	}
	family, ok := aliasFamilies[name]
	if !ok {
		return Alias{}, fmt.Errorf("alias %q: unknown family %q, expected al2, al2023, bottlerocket, windows2019, windows2022 or windows2025", text, name)
	}
	if strings.HasPrefix(family, "Windows") && version != VersionLatest {
		return Alias{}, fmt.Errorf("alias %q: version %q, expected latest, the only one of a Windows family", text, version)
	}
	if family == FamilyBottlerocket {
		version = strings.TrimPrefix(version, "v")
	}
	return Alias{Family: family, Version: version}, nil
}

// Alias returns the alias that the images are chosen by; ok is false when they are chosen by other terms.
func (s *EC2NodeClassSpec) Alias() (alias Alias, ok bool, err error) {
	for _, term := range s.AMISelectorTerms {
		if term.Alias != "" {
			alias, err = ParseAlias(term.Alias)
			return alias, err == nil, err
		}
	}
	return Alias{}, false, nil
}

// Family returns the family that nodes are started by: amiFamily, else that of the alias, else Custom.
func (s *EC2NodeClassSpec) Family() string {
	if s.AMIFamily != nil && *s.AMIFamily != "" {
		return *s.AMIFamily
	}
	if alias, ok, err := s.Alias(); ok && err == nil {
		return alias.Family
	}
	return FamilyCustom
}
