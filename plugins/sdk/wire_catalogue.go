package sdk

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	strategyv1 "github.com/weir-project/weir/plugins/proto/weir/strategy/v1"
)

// interner numbers texts in the order in which they come.
type interner struct {
	index map[string]uint32
	texts []string
}

func (n *interner) id(s string) uint32 {
	if i, ok := n.index[s]; ok {
		return i
	}
	i := uint32(len(n.texts))
	n.index[s] = i
	n.texts = append(n.texts, s)
	return i
}

// fromCatalogue writes a catalogue with its hash: equal content in equal order has
// an equal hash.
func fromCatalogue(c *Catalogue) *strategyv1.Catalogue {
	in := &interner{index: map[string]uint32{}}
	out := &strategyv1.Catalogue{Offerings: make([]*strategyv1.Offering, 0, len(c.Offerings))}
	types := map[*InstanceType]uint32{}
	h := &contentHash{}
	for i := range c.Offerings {
		o := &c.Offerings[i]
		t, ok := types[o.Type]
		if !ok {
			t = uint32(len(out.Types))
			types[o.Type] = t
			m := fromType(in, o.Type)
			out.Types = append(out.Types, m)
			h.add(m.NameText, m.NodeClassText, uint32(len(m.LabelTexts)), uint32(len(m.AllocatableExtended)))
			h.add(m.LabelTexts...)
			h.add64(m.AllocatableCpuMilli, m.AllocatableMemoryBytes, m.AllocatablePods)
			if m.AllocatableStorageBytes != 0 { // catalogues from before it keep their names
				h.add64(m.AllocatableStorageBytes)
			}
			for _, e := range m.AllocatableExtended {
				h.add(e.NameText)
				h.add64(e.Count)
			}
		}
		m := &strategyv1.Offering{Type: t, ZoneText: in.id(o.Zone), CapacityTypeText: in.id(o.CapacityType), ReservationText: in.id(o.ReservationID)}
		out.Offerings = append(out.Offerings, m)
		h.add(m.Type, m.ZoneText, m.CapacityTypeText, m.ReservationText)
	}
	out.Texts = in.texts
	h.text(in.texts)
	sum := sha256.Sum256(h.buf)
	out.Hash = sum[:]
	return out
}

// contentHash gathers content with its lengths, so that no two contents look alike.
type contentHash struct{ buf []byte }

func (h *contentHash) add(vs ...uint32) {
	for _, v := range vs {
		h.buf = binary.LittleEndian.AppendUint32(h.buf, v)
	}
}

func (h *contentHash) add64(vs ...int64) {
	for _, v := range vs {
		h.buf = binary.LittleEndian.AppendUint64(h.buf, uint64(v))
	}
}

func (h *contentHash) text(texts []string) {
	for _, t := range texts {
		h.add(uint32(len(t)))
		h.buf = append(h.buf, t...)
	}
}

func fromType(in *interner, t *InstanceType) *strategyv1.InstanceType {
	m := &strategyv1.InstanceType{
		NameText: in.id(t.Name), NodeClassText: in.id(t.NodeClass),
		AllocatableCpuMilli: t.CPUMilli, AllocatableMemoryBytes: t.MemoryBytes, AllocatablePods: t.Pods, AllocatableStorageBytes: t.StorageBytes,
		LabelTexts: make([]uint32, 0, 2*len(t.Labels)),
	}
	for _, k := range sortedKeys(t.Labels) {
		m.LabelTexts = append(m.LabelTexts, in.id(k), in.id(t.Labels[k]))
	}
	for _, k := range sortedKeys(t.Extended) {
		m.AllocatableExtended = append(m.AllocatableExtended, &strategyv1.Extended{NameText: in.id(k), Count: t.Extended[k]})
	}
	return m
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// toCatalogue reads a catalogue. Errors: a hash that is not 32 bytes, too many
// entries, an index that points nowhere.
func toCatalogue(m *strategyv1.Catalogue) (*Catalogue, error) {
	if len(m.Hash) != sha256.Size {
		return nil, fmt.Errorf("catalogue: hash of %d bytes, want %d", len(m.Hash), sha256.Size)
	}
	if len(m.Texts) > MaxTexts || len(m.Types) > MaxTypes || len(m.Offerings) > MaxOfferings {
		return nil, fmt.Errorf("catalogue: %d texts, %d types, %d offerings, at most %d, %d, %d",
			len(m.Texts), len(m.Types), len(m.Offerings), MaxTexts, MaxTypes, MaxOfferings)
	}
	r := textReader{texts: m.Texts, what: "catalogue"}
	types := make([]*InstanceType, len(m.Types))
	for i, t := range m.Types {
		if len(t.LabelTexts)%2 != 0 {
			return nil, fmt.Errorf("catalogue: type %d has a label without a value", i)
		}
		types[i] = r.instanceType(t)
	}
	c := &Catalogue{Offerings: make([]Offering, len(m.Offerings))}
	copy(c.Hash[:], m.Hash)
	for i, o := range m.Offerings {
		if int(o.Type) >= len(types) {
			return nil, fmt.Errorf("catalogue: offering %d names type %d of %d", i, o.Type, len(types))
		}
		c.Offerings[i] = Offering{Type: types[o.Type], Zone: r.text(o.ZoneText),
			CapacityType: r.text(o.CapacityTypeText), ReservationID: r.text(o.ReservationText)}
	}
	return c, r.err
}

// textReader looks texts up and remembers the first index that points nowhere.
type textReader struct {
	texts []string
	what  string // for messages
	err   error
}

func (r *textReader) text(i uint32) string {
	if int(i) >= len(r.texts) {
		if r.err == nil {
			r.err = fmt.Errorf("%s: text %d of %d", r.what, i, len(r.texts))
		}
		return ""
	}
	return r.texts[i]
}

func (r *textReader) instanceType(t *strategyv1.InstanceType) *InstanceType {
	out := &InstanceType{Name: r.text(t.NameText), NodeClass: r.text(t.NodeClassText), CPUMilli: t.AllocatableCpuMilli,
		MemoryBytes: t.AllocatableMemoryBytes, Pods: t.AllocatablePods, StorageBytes: t.AllocatableStorageBytes, Labels: make(map[string]string, len(t.LabelTexts)/2)}
	for i := 0; i < len(t.LabelTexts); i += 2 {
		out.Labels[r.text(t.LabelTexts[i])] = r.text(t.LabelTexts[i+1])
	}
	for _, e := range t.AllocatableExtended {
		if out.Extended == nil {
			out.Extended = map[string]int64{}
		}
		out.Extended[r.text(e.NameText)] = e.Count
	}
	return out
}
