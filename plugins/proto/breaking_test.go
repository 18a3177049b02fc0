package proto_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	consolidationv1 "github.com/weir-project/weir/plugins/proto/weir/consolidation/v1"
	instancev1 "github.com/weir-project/weir/plugins/proto/weir/instanceselection/v1"
	strategyv1 "github.com/weir-project/weir/plugins/proto/weir/strategy/v1"
)

// released reads the last released protocol, as "buf build -o released.binpb" wrote it.
func released(t *testing.T) []*descriptorpb.FileDescriptorProto {
	t.Helper()
	b, err := os.ReadFile("released.binpb")
	if err != nil {
		t.Fatal(err)
	}
	var set descriptorpb.FileDescriptorSet
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, &set); err != nil {
		t.Fatal(err)
	}
	files := slices.DeleteFunc(set.File, func(f *descriptorpb.FileDescriptorProto) bool { return !strings.HasPrefix(f.GetName(), "weir/") })
	if len(files) < 5 {
		t.Fatalf("the released protocol has %d files", len(files))
	}
	return files
}

// current is the protocol that this module has.
func current() map[string]*descriptorpb.FileDescriptorProto {
	out := map[string]*descriptorpb.FileDescriptorProto{}
	for _, f := range []protoreflect.FileDescriptor{strategyv1.File_weir_strategy_v1_strategy_proto, strategyv1.File_weir_strategy_v1_catalogue_proto,
		strategyv1.File_weir_strategy_v1_state_proto, instancev1.File_weir_instanceselection_v1_instanceselection_proto,
		consolidationv1.File_weir_consolidation_v1_consolidation_proto} {
		out[f.Path()] = protodesc.ToFileDescriptorProto(f)
	}
	return out
}

// missing says what of the released files is not in the current ones as it was. buf
// knows more rules; these hold where buf is not at hand.
func missing(released []*descriptorpb.FileDescriptorProto, now map[string]*descriptorpb.FileDescriptorProto) []string {
	var out []string
	for _, f := range released {
		g := now[f.GetName()]
		if g == nil {
			out = append(out, "file "+f.GetName())
			continue
		}
		for _, m := range f.MessageType {
			out = append(out, missingFields(m, g.MessageType)...)
		}
		for _, e := range f.EnumType {
			out = append(out, missingValues(e, g.EnumType)...)
		}
		for _, s := range f.Service {
			out = append(out, missingMethods(s, g.Service)...)
		}
	}
	return out
}

func missingFields(m *descriptorpb.DescriptorProto, among []*descriptorpb.DescriptorProto) (out []string) {
	i := slices.IndexFunc(among, func(x *descriptorpb.DescriptorProto) bool { return x.GetName() == m.GetName() })
	if i < 0 {
		return []string{"message " + m.GetName()}
	}
	for _, f := range m.Field {
		if !slices.ContainsFunc(among[i].Field, func(x *descriptorpb.FieldDescriptorProto) bool {
			return x.GetNumber() == f.GetNumber() && x.GetName() == f.GetName() && x.GetType() == f.GetType() && x.GetTypeName() == f.GetTypeName() && x.GetLabel() == f.GetLabel()
		}) {
			out = append(out, fmt.Sprintf("field %d (%s) of message %s", f.GetNumber(), f.GetName(), m.GetName()))
		}
	}
	return out
}

func missingValues(e *descriptorpb.EnumDescriptorProto, among []*descriptorpb.EnumDescriptorProto) (out []string) {
	i := slices.IndexFunc(among, func(x *descriptorpb.EnumDescriptorProto) bool { return x.GetName() == e.GetName() })
	if i < 0 {
		return []string{"enum " + e.GetName()}
	}
	for _, v := range e.Value {
		if !slices.ContainsFunc(among[i].Value, func(x *descriptorpb.EnumValueDescriptorProto) bool {
			return x.GetNumber() == v.GetNumber() && x.GetName() == v.GetName()
		}) {
			out = append(out, "value "+v.GetName())
		}
	}
	return out
}

func missingMethods(s *descriptorpb.ServiceDescriptorProto, among []*descriptorpb.ServiceDescriptorProto) (out []string) {
	i := slices.IndexFunc(among, func(x *descriptorpb.ServiceDescriptorProto) bool { return x.GetName() == s.GetName() })
	if i < 0 {
		return []string{"service " + s.GetName()}
	}
	for _, m := range s.Method {
		if !slices.ContainsFunc(among[i].Method, func(x *descriptorpb.MethodDescriptorProto) bool {
			return x.GetName() == m.GetName() && x.GetInputType() == m.GetInputType() && x.GetOutputType() == m.GetOutputType() &&
				x.GetClientStreaming() == m.GetClientStreaming() && x.GetServerStreaming() == m.GetServerStreaming()
		}) {
			out = append(out, "method "+m.GetName())
		}
	}
	return out
}

// Within a major version the protocol only grows.
func TestNothingReleasedIsGone(t *testing.T) {
	t.Parallel()
	if gone := missing(released(t), current()); len(gone) > 0 {
		t.Errorf("the protocol was released with what it no longer has, which breaks strategies that are out there: %v", gone)
	}
}

// The test above notices what it is for.
func TestWhatIsRemovedIsNoticed(t *testing.T) {
	t.Parallel()
	const file = "weir/instanceselection/v1/instanceselection.proto"
	of := func(now map[string]*descriptorpb.FileDescriptorProto, name string) *descriptorpb.DescriptorProto {
		m := now[file].MessageType
		return m[slices.IndexFunc(m, func(x *descriptorpb.DescriptorProto) bool { return x.GetName() == name })]
	}
	for want, spoil := range map[string]func(map[string]*descriptorpb.FileDescriptorProto){
		"field 1 (catalogue_hash) of message PriceRequest": func(now map[string]*descriptorpb.FileDescriptorProto) {
			m := of(now, "PriceRequest")
			m.Field = m.Field[1:]
		},
		"field 5 (fee_usd_per_node_hour) of message PoolPrices": func(now map[string]*descriptorpb.FileDescriptorProto) {
			for _, f := range of(now, "PoolPrices").Field {
				if f.GetNumber() == 5 {
					f.Type = descriptorpb.FieldDescriptorProto_TYPE_FLOAT.Enum()
				}
			}
		},
		"value PACKING_LARGEST_FIRST": func(now map[string]*descriptorpb.FileDescriptorProto) {
			e := now[file].EnumType[0]
			e.Value = e.Value[:len(e.Value)-1]
		},
		"method Price": func(now map[string]*descriptorpb.FileDescriptorProto) {
			now[file].Service[0].Method[0].Name = proto.String("Cost")
		},
		"file " + file: func(now map[string]*descriptorpb.FileDescriptorProto) { delete(now, file) },
	} {
		now := current()
		spoil(now)
		if gone := missing(released(t), now); !slices.Contains(gone, want) {
			t.Errorf("%s is gone, noticed: %v", want, gone)
		}
	}
}

// A file of the image may carry what newer tools know; this reader must not need it.
func TestReleasedImageIsADescriptorSet(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("released.binpb")
	if err != nil {
		t.Fatal(err)
	}
	if num, typ, n := protowire.ConsumeTag(b); n < 0 || num != 1 || typ != protowire.BytesType {
		t.Errorf("starts with field %d of type %d", num, typ)
	}
}
