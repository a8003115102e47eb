//! Copies in front of a `Concat`: its operands are written straight into the result's memory, so
//! each must be a value that a kernel writes, that lies nowhere else, and that all its readers can
//! read with gaps between rows. Where that is not so, a whole `Slice` in between is the copy.

use graph::{Function, Node, NodeId, Op, User, ValueId, rebuild};
use sym::Expr;

/// Inserts the copies.
pub(crate) fn legalise(function: &Function) -> Result<Function, String> {
    let users = super::body_users(function);
    rebuild(function, |rewriter, node| {
        let source = rewriter.source;
        let Node { op: Op::Concat { axis }, operands, .. } = &source.nodes[node] else {
            return Ok(None);
        };
        let mut copies = Vec::new();
        for (number, &operand) in operands.iter().enumerate() {
            let new = rewriter.get(operand);
            let first = users[operand].iter().find(|user| is_concat(source, user));
            let taken = first != Some(&User::Operand(node, number));
            if !taken && can_lie_within(source, operand, &users[operand]) {
                copies.push(new);
                continue;
            }
            let shape = rewriter.builder.shape(new)?;
            let (starts, steps) = (vec![Expr::ZERO; shape.len()], vec![1; shape.len()]);
            copies.extend(rewriter.builder.add(Op::Slice { starts, steps, shape }, &[new])?);
        }
        rewriter.builder.add(Op::Concat { axis: *axis }, &copies).map(Some)
    })
}

fn is_concat(function: &Function, user: &User) -> bool {
    matches!(user, User::Operand(node, _) if matches!(function.nodes[*node].op, Op::Concat { .. }))
}

/// Whether a value may lie within the memory of another, with gaps between its rows: a kernel makes
/// it, and each of its readers is a kernel that reads it element by element.
pub(super) fn can_lie_within(function: &Function, value: ValueId, users: &[User]) -> bool {
    let Some((node, _)) = function.producer(value) else { return false };
    let reads_elements = |user: &User| match user {
        User::Operand(reader, _) => !needs_dense(function, *reader),
        User::Result(..) => false,
    };
    is_made_by_kernel(&function.nodes[node].op) && users.iter().all(reads_elements)
}

fn is_made_by_kernel(op: &Op) -> bool {
    !matches!(
        op,
        Op::Literal(_)
            | Op::Weight { .. }
            | Op::Iota { .. }
            | Op::Dimension(_)
            | Op::Bind { .. }
            | Op::Reshape { .. }
            | Op::If
            | Op::While
            | Op::Scan { .. }
            | Op::Call { .. }
            | Op::Host { .. }
    )
}

/// Whether a node reads its operands as dense memory.
fn needs_dense(function: &Function, node: NodeId) -> bool {
    matches!(
        function.nodes[node].op,
        Op::Reshape { .. }
            | Op::Bind { .. }
            | Op::If
            | Op::While
            | Op::Scan { .. }
            | Op::Call { .. }
            | Op::Host { .. }
    )
}
