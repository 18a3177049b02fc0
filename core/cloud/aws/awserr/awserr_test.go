package awserr_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/smithy-go"

	"github.com/weir-project/weir/core/cloud"
	"github.com/weir-project/weir/core/cloud/aws/awserr"
)

func TestKind(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]cloud.ErrorKind{
		"InsufficientInstanceCapacity": cloud.Shortage, "UnfulfillableCapacity": cloud.Shortage,
		"RequestLimitExceeded": cloud.Throttled, "ThrottlingException": cloud.Throttled,
		"VcpuLimitExceeded": cloud.Quota, "MaxSpotInstanceCountExceeded": cloud.Quota, "FooLimitExceeded": cloud.Quota,
		"UnauthorizedOperation": cloud.Auth, "AuthFailure.ServiceLinkedRoleCreationNotPermitted": cloud.Auth, "ExpiredToken": cloud.Auth,
		"IdempotentParameterMismatch": cloud.Token,
		"InvalidInstanceID.NotFound":  cloud.NotFound, "InvalidFoo.NotFound": cloud.NotFound,
		"InvalidParameterValue": cloud.Template, "InsufficientFreeAddressesInSubnet": cloud.Template, "Unsupported": cloud.Template, "InvalidUserData.Malformed": cloud.Template,
		"InternalError": cloud.Internal, "ServiceUnavailable": cloud.Internal, "": cloud.Internal, "SomethingNew": cloud.Internal,
	} {
		if got := awserr.Kind(code); got != want {
			t.Errorf("%s is %s, want %s", code, got, want)
		}
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	api := func(code string, fault smithy.ErrorFault) error {
		return fmt.Errorf("operation error EC2: %w", &smithy.GenericAPIError{Code: code, Message: "no", Fault: fault})
	}
	for name, tc := range map[string]struct {
		err  error
		want cloud.ErrorKind
		code string
	}{
		"an answer":                          {api("RequestLimitExceeded", smithy.FaultClient), cloud.Throttled, "RequestLimitExceeded"},
		"a fault of the server":              {api("InvalidSomething", smithy.FaultServer), cloud.Internal, "InvalidSomething"},
		"no answer":                          {errors.New("connection refused"), cloud.Internal, "RequestFailed"},
		"one that was sorted before":         {fmt.Errorf("x: %w", &cloud.Error{Kind: cloud.Quota, Code: "Q"}), cloud.Quota, "Q"},
		"an answer that came with a timeout": {fmt.Errorf("%w: %w", context.DeadlineExceeded, api("AccessDenied", smithy.FaultClient)), cloud.Auth, "AccessDenied"},
	} {
		got := awserr.Of("CreateFleet", tc.err)
		if cloud.KindOf(got) != tc.want || !awserr.Is(got, tc.code) {
			t.Errorf("%s: %v of kind %s, want %s of kind %s", name, got, cloud.KindOf(got), tc.code, tc.want)
		}
	}
	if err := awserr.Of("x", nil); err != nil {
		t.Errorf("nil became %v", err)
	}
	for _, e := range []error{context.Canceled, context.DeadlineExceeded} {
		if got := awserr.Of("x", fmt.Errorf("call: %w", e)); !errors.Is(got, e) {
			t.Errorf("%v became %v", e, got)
		}
	}
}

func TestNoSignatureIsTold(t *testing.T) {
	t.Parallel()
	err := awserr.Of("x", errors.New(`Post "https://ec2/?a=b&X-Amz-Signature=secret": EOF`))
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}

func TestReason(t *testing.T) {
	t.Parallel()
	for _, tc := range [][3]string{
		{"UnauthorizedOperation", "You are not authorized", "Unauthorized"},
		{"AuthFailure", "Not authorized for images: [ami-1]", "AMIAuthorizationFailure"},
		{"AuthFailure.ServiceLinkedRoleCreationNotPermitted", "x", "SpotSLRCreationFailed"},
		{"InvalidParameter", "Security group sg-1 and subnet subnet-1 belong to different networks.", "SecurityGroupSubnetVPCMismatch"},
		{"InvalidParameterValue", "Value (x) for parameter iamInstanceProfile.name is invalid.", "InstanceProfileNameInvalid"},
		{"VcpuLimitExceeded", "x", "VCPULimitExceeded"},
		{"Whatever", "x", "LaunchFailed"},
	} {
		if got := awserr.Reason(tc[0], tc[1]); got != tc[2] {
			t.Errorf("%s: %s, want %s", tc[0], got, tc[2])
		}
	}
}

// documented are the codes of the launch reference, by what has to be done about them.
var documented = map[cloud.ErrorKind][]string{
	cloud.Shortage:  {"InsufficientInstanceCapacity", "UnfulfillableCapacity", "ReservationCapacityExceeded"},
	cloud.Throttled: {"RequestLimitExceeded", "Throttling", "ThrottlingException", "EC2ThrottledException", "TooManyRequestsException", "PriorRequestNotComplete"},
	cloud.Quota:     {"MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", "MaxFleetCountExceeded", "PendingVerification", "FreeTierRestrictionError"},
	cloud.Auth:      {"UnauthorizedOperation", "AccessDenied", "AuthFailure", "AuthFailure.ServiceLinkedRoleCreationNotPermitted", "ExpiredToken", "RequestExpired"},
	cloud.Template:  {"Unsupported", "InsufficientFreeAddressesInSubnet", "InvalidParameter", "InvalidParameterValue", "InvalidAMIID.Malformed", "InvalidBlockDeviceMapping"},
	cloud.Token:     {"IdempotentParameterMismatch"},
	cloud.NotFound: {"InvalidInstanceID.NotFound", "InvalidLaunchTemplateName.NotFoundException", "InvalidLaunchTemplateId.NotFound", "InvalidCapacityReservationId.NotFound",
		"InvalidAMIID.NotFound", "InvalidSubnetID.NotFound", "NoSuchEntity", "ParameterNotFound", "QueueDoesNotExist"},
	cloud.Internal: {"InternalError", "ServiceUnavailable", "Unavailable", "InternalFailure"},
}

func TestEachDocumentedCodeHasItsKind(t *testing.T) {
	t.Parallel()
	for kind, codes := range documented {
		for _, code := range codes {
			err := awserr.Of("CreateFleet", &smithy.GenericAPIError{Code: code, Message: "no"})
			if got := cloud.KindOf(err); got != kind {
				t.Errorf("%s is %s, want %s", code, got, kind)
			}
			var e *cloud.Error
			if !errors.As(err, &e) || e.Reason == "" {
				t.Errorf("%s: %v has no reason for conditions", code, err)
			}
		}
	}
}
