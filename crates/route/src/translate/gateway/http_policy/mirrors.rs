//! The copies of requests by an HTTPPolicy.

use std::sync::Arc;

use super::references::backend;
use crate::model::{Mirror, Share};
use crate::objects::gateway::{MirrorFraction, MirrorSpec};
use crate::translate::dialect::Resolver;
use crate::translate::fault::FieldFault;
use crate::translate::gateway::backend::Called;

/// The maximum number of receivers. Source: CustomResourceDefinition. Manifests are not validated against it.
const MOST: usize = 3;

/// Parses the receivers of copies. `left_out` gets those that do not exist or must not receive requests: a copy without a receiver does
/// not fail the request.
pub fn parse(
    specs: &[MirrorSpec],
    namespace: &Arc<str>,
    resolver: &mut Resolver,
    left_out: &mut Vec<FieldFault>,
) -> Result<Arc<[Mirror]>, FieldFault> {
    if specs.len() > MOST {
        return Err(FieldFault::new("", format!("more than {MOST} mirrors")));
    }
    let mut mirrors = Vec::new();
    for (i, MirrorSpec { backend_ref, fraction, percent }) in specs.iter().enumerate() {
        let share = match (fraction, percent) {
            (None, None) => Some(Share::ALL),
            (None, Some(percent)) => Share::new(*percent, 100),
            (Some(MirrorFraction { numerator, denominator }), None) => Share::new(*numerator, *denominator),
            (Some(_), Some(_)) => {
                return Err(FieldFault::new(format!("[{i}]"), "both \"fraction\" and \"percent\" are set"));
            }
        };
        let field = if fraction.is_some() { "fraction" } else { "percent" };
        let fault = || FieldFault::new(format!("[{i}].{field}"), "the share of the requests is not between 0 and 1");
        let share = share.ok_or_else(fault)?;
        match backend(backend_ref, None, namespace, resolver) {
            Ok(Called { cluster, .. }) if share.millionths() > 0 => mirrors.push(Mirror { cluster, share }),
            Ok(_) => {}
            Err(fault) => left_out.push(fault.within(format_args!("[{i}]"))),
        }
    }
    Ok(mirrors.into())
}
