package ec2front

import (
	"encoding/base64"
	"slices"
	"strings"
	"time"
)

type template struct {
	id, name string
	made     time.Time
	tags     map[string]string
	data     *params // as it was sent
}

// field is a part of a launch template's data: its name in requests, its name in answers where that is not the same with a
// small first letter, and what is in it.
type field struct {
	name, answer string
	list         bool
	kids         []field
}

func values(names string) []field {
	var out []field
	for _, n := range strings.Fields(names) {
		out = append(out, field{name: n})
	}
	return out
}

func object(name, names string, more ...field) field {
	return field{name: name, kids: append(values(names), more...)}
}

func objects(name, answer, names string, more ...field) field {
	return field{name: name, answer: answer, list: true, kids: append(values(names), more...)}
}

func texts(name, answer string) field { return field{name: name, answer: answer, list: true} }

// templateData is what a launch template may hold.
var templateData = append(values("ImageId InstanceType KeyName UserData EbsOptimized DisableApiTermination InstanceInitiatedShutdownBehavior"),
	objects("BlockDeviceMapping", "blockDeviceMappingSet", "DeviceName VirtualName NoDevice",
		object("Ebs", "Encrypted DeleteOnTermination Iops KmsKeyId SnapshotId VolumeSize VolumeType Throughput VolumeInitializationRate")),
	object("IamInstanceProfile", "Arn Name"),
	objects("NetworkInterface", "networkInterfaceSet", "AssociatePublicIpAddress DeleteOnTermination Description DeviceIndex InterfaceType Ipv6AddressCount NetworkCardIndex Ipv4PrefixCount Ipv6PrefixCount PrimaryIpv6",
		texts("SecurityGroupId", "groupSet"), object("ConnectionTrackingSpecification", "TcpEstablishedTimeout UdpTimeout UdpStreamTimeout")),
	object("Monitoring", "Enabled"), object("Placement", "AvailabilityZone GroupName GroupId PartitionNumber Tenancy"),
	objects("TagSpecification", "tagSpecificationSet", "ResourceType", objects("Tag", "tagSet", "Key Value")),
	texts("SecurityGroupId", "securityGroupIdSet"),
	object("InstanceMarketOptions", "MarketType", object("SpotOptions", "MaxPrice SpotInstanceType InstanceInterruptionBehavior")),
	object("CpuOptions", "CoreCount ThreadsPerCore AmdSevSnp NestedVirtualization"),
	object("CapacityReservationSpecification", "CapacityReservationPreference", object("CapacityReservationTarget", "CapacityReservationId CapacityReservationResourceGroupArn")),
	object("MetadataOptions", "HttpTokens HttpPutResponseHopLimit HttpEndpoint HttpProtocolIpv6 InstanceMetadataTags"),
	object("EnclaveOptions", "Enabled"),
)

// echo reads the fields of a tree and, where there is a writer, writes them as answers have them.
func echo(p *params, fields []field, w *writer) error {
	for _, f := range fields {
		k := p.get(f.name)
		if !k.has && k.kids == nil {
			continue
		}
		name := f.answer
		if name == "" {
			name = strings.ToLower(f.name[:1]) + f.name[1:]
		}
		open := func(name string, do func() error) error {
			if w == nil {
				return do()
			}
			var err error
			w.in(name, func() { err = do() })
			return err
		}
		var err error
		switch {
		case f.list:
			items, e := p.list(f.name)
			if e != nil {
				return e
			}
			item := "item"
			if name == "groupSet" {
				item = "groupId"
			}
			err = open(name, func() error {
				for _, i := range items {
					i.read = true
					if err := open(item, func() error {
						if w != nil && f.kids == nil {
							w.WriteString(i.text)
						}
						return echo(i, f.kids, w)
					}); err != nil {
						return err
					}
				}
				return nil
			})
		case f.kids != nil:
			err = open(name, func() error { return echo(k, f.kids, w) })
		default:
			if text := p.str(f.name); w != nil {
				w.el(name, text)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func createLaunchTemplate(f *Front, p *params) (func(*writer), error) {
	t := &template{name: p.str("LaunchTemplateName"), made: f.opts.Now(), data: p.get("LaunchTemplateData")}
	tags, err := p.tagSpecifications("launch-template")
	if err != nil {
		return nil, err
	}
	t.tags = tags["launch-template"]
	if err := echo(t.data, templateData, nil); err != nil {
		return nil, err
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	if _, err := base64.StdEncoding.DecodeString(t.data.str("UserData")); err != nil {
		return nil, fail("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.")
	}
	switch {
	case len(t.name) < 3 || len(t.name) > 128:
		return nil, fail("InvalidLaunchTemplateName.MalformedException", "A launch template name must be between 3 and 128 characters")
	case f.template(t.name) != nil:
		return nil, fail("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
	}
	t.id = f.id("lt-")
	f.templates = append(f.templates, t)
	return func(w *writer) { w.in("launchTemplate", func() { t.write(w) }) }, nil
}

func (t *template) write(w *writer) {
	w.el("launchTemplateId", t.id)
	w.el("launchTemplateName", t.name)
	w.time("createTime", t.made)
	w.el("createdBy", "arn:aws:iam::"+Account+":root")
	w.num("defaultVersionNumber", 1)
	w.num("latestVersionNumber", 1)
	w.tags(t.tags)
}

// template finds one by name or id.
func (f *Front) template(name string) *template {
	for _, t := range f.templates {
		if name != "" && (t.name == name || t.id == name) {
			return t
		}
	}
	return nil
}

func noTemplate(name string) error {
	return fail("InvalidLaunchTemplateName.NotFoundException", "The specified launch template, with template name %s, does not exist.", name)
}

func describeLaunchTemplates(f *Front, p *params) (func(*writer), error) {
	names, err := p.strings("LaunchTemplateName")
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if f.template(n) == nil {
			return nil, noTemplate(n)
		}
	}
	filters, err := p.filters("launch-template-name")
	if err != nil {
		return nil, err
	}
	list := slices.DeleteFunc(slices.Clone(f.templates), func(t *template) bool {
		return len(names) > 0 && !slices.Contains(names, t.name) || !met(filters, t.tags, func(string) []string { return []string{t.name} })
	})
	list, next, err := page(p, list, 1, 200)
	if err != nil {
		return nil, err
	}
	return func(w *writer) {
		set(w, "launchTemplates", list, func(t *template) { t.write(w) })
		w.el("nextToken", next)
	}, p.finish()
}

func describeLaunchTemplateVersions(f *Front, p *params) (func(*writer), error) {
	name := p.str("LaunchTemplateName") + p.str("LaunchTemplateId")
	if _, err := p.strings("LaunchTemplateVersion"); err != nil { // there is one version of each
		return nil, err
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	t := f.template(name)
	if t == nil {
		return nil, noTemplate(name)
	}
	data := &writer{}
	if err := echo(t.data, templateData, data); err != nil {
		return nil, err
	}
	return func(w *writer) {
		set(w, "launchTemplateVersionSet", []*template{t}, func(t *template) {
			w.el("launchTemplateId", t.id)
			w.el("launchTemplateName", t.name)
			w.num("versionNumber", 1)
			w.time("createTime", t.made)
			w.bool("defaultVersion", true)
			w.in("launchTemplateData", func() { w.Write(data.Bytes()) })
		})
	}, nil
}

func deleteLaunchTemplate(f *Front, p *params) (func(*writer), error) {
	name := p.str("LaunchTemplateName") + p.str("LaunchTemplateId")
	if err := p.finish(); err != nil {
		return nil, err
	}
	t := f.template(name)
	if t == nil {
		return nil, noTemplate(name)
	}
	f.templates = slices.DeleteFunc(f.templates, func(x *template) bool { return x == t })
	return func(w *writer) { w.in("launchTemplate", func() { t.write(w) }) }, nil
}
