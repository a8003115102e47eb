//! Factors of matrices, by calls of LAPACK's routines as JAX writes them: what is found is what the
//! factors are defined by, for matrices of several sizes and kinds, degenerate ones among them.

mod evaluated;

use evaluated::{evaluated, import};
use tensor::{DType, Tensor};

/// A matrix of complex numbers, row by row.
#[derive(Clone, Debug)]
struct Matrix {
    rows: usize,
    columns: usize,
    elements: Vec<(f64, f64)>,
}

impl Matrix {
    fn of(
        rows: usize,
        columns: usize,
        mut element: impl FnMut(usize, usize) -> (f64, f64),
    ) -> Self {
        let elements = (0..rows * columns).map(|at| element(at / columns, at % columns)).collect();
        Matrix { rows, columns, elements }
    }

    fn unit(size: usize) -> Matrix {
        Matrix::of(size, size, |row, column| (f64::from(u8::from(row == column)), 0.0))
    }

    fn at(&self, row: usize, column: usize) -> (f64, f64) {
        self.elements[row * self.columns + column]
    }

    fn adjoint(&self) -> Matrix {
        Matrix::of(self.columns, self.rows, |row, column| {
            let (re, im) = self.at(column, row);
            (re, -im)
        })
    }

    fn times(&self, other: &Matrix) -> Matrix {
        assert_eq!(self.columns, other.rows);
        Matrix::of(self.rows, other.columns, |row, column| {
            (0..self.columns).fold((0.0, 0.0), |(re, im), at| {
                let ((a, b), (c, d)) = (self.at(row, at), other.at(at, column));
                (re + a * c - b * d, im + a * d + b * c)
            })
        })
    }

    /// Columns, each times a number.
    fn scaled(&self, factors: &[f64]) -> Matrix {
        Matrix::of(self.rows, self.columns, |row, column| {
            let ((re, im), factor) = (self.at(row, column), factors.get(column).unwrap_or(&0.0));
            (re * factor, im * factor)
        })
    }

    fn part(&self, rows: usize, columns: usize) -> Matrix {
        Matrix::of(rows, columns, |row, column| self.at(row, column))
    }

    /// The greatest size of a part of an element.
    fn greatest(&self) -> f64 {
        let sizes = self.elements.iter().map(|(re, im)| re.abs().max(im.abs()));
        sizes.fold(0.0, |most, size| if size > most || size.is_nan() { size } else { most })
    }

    fn away(&self, other: &Matrix) -> f64 {
        assert_eq!((self.rows, self.columns), (other.rows, other.columns));
        let of = |at: usize| (self.elements[at], other.elements[at]);
        let difference = Matrix::of(self.rows, self.columns, |row, column| {
            let ((a, b), (c, d)) = of(row * self.columns + column);
            (a - c, b - d)
        });
        difference.greatest()
    }
}

/// An element type of programs: its letter in names of routines, its text, and that of its parts.
#[derive(Clone, Copy, Debug)]
struct Kind {
    letter: char,
    text: &'static str,
    part: &'static str,
    dtype: DType,
    is_complex: bool,
    tolerance: f64,
}

const KINDS: [Kind; 4] = [
    Kind {
        letter: 's',
        text: "f32",
        part: "f32",
        dtype: DType::F32,
        is_complex: false,
        tolerance: 2e-5,
    },
    Kind {
        letter: 'd',
        text: "f64",
        part: "f64",
        dtype: DType::F64,
        is_complex: false,
        tolerance: 1e-12,
    },
    Kind {
        letter: 'c',
        text: "complex<f32>",
        part: "f32",
        dtype: DType::F32,
        is_complex: true,
        tolerance: 2e-5,
    },
    Kind {
        letter: 'z',
        text: "complex<f64>",
        part: "f64",
        dtype: DType::F64,
        is_complex: true,
        tolerance: 1e-12,
    },
];

impl Kind {
    /// Matrices as an input of a program, `[count, rows, columns]`, complex ones in pairs.
    fn tensor(self, matrices: &[Matrix]) -> Tensor {
        let (rows, columns) = (matrices[0].rows, matrices[0].columns);
        let mut shape = vec![matrices.len(), rows, columns];
        let all = matrices.iter().flat_map(|matrix| &matrix.elements);
        let numbers: Vec<f64> = match self.is_complex {
            true => {
                shape.push(2);
                all.flat_map(|&(re, im)| [re, im]).collect()
            }
            false => all.map(|pair| pair.0).collect(),
        };
        Tensor::from_vec(&shape, numbers).cast(self.dtype)
    }

    /// The matrices of an output.
    fn matrices(self, tensor: &Tensor) -> Vec<Matrix> {
        let (rows, columns) = (tensor.shape()[1], tensor.shape()[2]);
        let numbers = tensor.to_f64_vec();
        let width = if self.is_complex { 2 } else { 1 };
        let pair = |element: &[f64]| (element[0], element.get(1).copied().unwrap_or(0.0));
        let elements: Vec<(f64, f64)> = numbers.chunks(width).map(pair).collect();
        let matrices = elements.chunks((rows * columns).max(1));
        matrices.map(|elements| Matrix { rows, columns, elements: elements.to_vec() }).collect()
    }

    /// Matrices as an input of this type holds them.
    fn rounded(self, matrices: &[Matrix]) -> Vec<Matrix> {
        self.matrices(&self.tensor(matrices))
    }
}

/// What a call of a routine gives for inputs of these types, by the text of its types.
fn called(
    routine: &str,
    told: &str,
    (inputs, types): (&[Tensor], &[String]),
    results: &[String],
) -> Vec<Tensor> {
    let tensor = |text: &String| format!("tensor<{text}>");
    let given: Vec<String> = types.iter().map(tensor).collect();
    let results: Vec<String> = results.iter().map(tensor).collect();
    let parameters = given.iter().enumerate().map(|(at, text)| format!("%a{at}: {text}"));
    let parameters: Vec<String> = parameters.collect();
    let names: Vec<String> = (0..given.len()).map(|at| format!("%a{at}")).collect();
    let found: Vec<String> = match results.len() {
        1 => vec!["%r".to_owned()],
        count => (0..count).map(|at| format!("%r#{at}")).collect(),
    };
    let name = if results.len() == 1 { "%r".to_owned() } else { format!("%r:{}", results.len()) };
    let text = format!(
        "func.func public @main({}) -> ({types}) {{\n  {name} = stablehlo.custom_call \
         @lapack_{routine}_ffi({}) {{backend_config = \"\", mhlo.backend_config = {{{told}}}}} : \
         ({}) -> ({types})\n  return {} : {types}\n}}\n",
        parameters.join(", "),
        names.join(", "),
        given.join(", "),
        found.join(", "),
        types = results.join(", "),
    );
    let imported = import(text.as_bytes()).unwrap_or_else(|found| panic!("{found}\n{text}"));
    evaluated(&imported, inputs).unwrap_or_else(|found| panic!("{found}\n{text}"))
}

/// Numbers from -1 to 1, always the same.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    fn matrix(&mut self, rows: usize, columns: usize, kind: Kind) -> Matrix {
        Matrix::of(rows, columns, |_, _| {
            let re = self.next();
            (re, if kind.is_complex { self.next() } else { 0.0 })
        })
    }
}

/// Of larger matrices only two are tried: the evaluator takes its time.
const FEW_ROWS: usize = 5;

/// Any matrices, and degenerate ones: of zeros, of ones, of one row's multiples, with columns of
/// zeros, and with elements that are large and small beside each other.
fn matrices(rows: usize, columns: usize, kind: Kind) -> Vec<Matrix> {
    let mut numbers = Numbers(rows as u64 * 100 + columns as u64);
    let any = numbers.matrix(rows, columns, kind);
    let constant = |number: f64| Matrix::of(rows, columns, |_, _| (number, 0.0));
    let column = numbers.matrix(rows, 1, kind);
    let row = numbers.matrix(1, columns, kind);
    let halved = Matrix::of(rows, columns, |row, column| match column % 2 {
        0 => any.at(row, column),
        _ => (0.0, 0.0),
    });
    let graded = Matrix::of(rows, columns, |row, column| {
        let ((re, im), scale) = (any.at(row, column), 10_f64.powi(-((row + column) as i32 % 9)));
        (re * scale, im * scale)
    });
    let large = Matrix::of(rows, columns, |row, column| {
        let (re, im) = any.at(row, column);
        (re * 1e25, im * 1e25)
    });
    let mut all =
        vec![any.clone(), constant(1.0), constant(0.0), column.times(&row), halved, graded, large];
    if rows.max(columns) > FEW_ROWS {
        all.truncate(2);
    }
    kind.rounded(&all)
}

/// Hermitian ones of [`matrices`], and some whose eigenvalues are the same.
fn hermitian_matrices(size: usize, kind: Kind) -> Vec<Matrix> {
    let halves = matrices(size, size, kind).into_iter().map(|matrix| {
        let other = matrix.adjoint();
        Matrix::of(size, size, |row, column| {
            let ((a, b), (c, d)) = (matrix.at(row, column), other.at(row, column));
            ((a + c) / 2.0, (b + d) / 2.0)
        })
    });
    let signs = Matrix::of(size, size, |row, column| match (row == column, row % 2) {
        (true, 0) => (3.0, 0.0),
        (true, _) => (-3.0, 0.0),
        _ => (0.0, 0.0),
    });
    let mut all: Vec<Matrix> = halves.collect();
    all.extend([Matrix::unit(size), signs]);
    kind.rounded(&all)
}

#[test]
fn eigenvectors_are_at_right_angles_and_are_multiplied() {
    for (kind, size) in KINDS.into_iter().flat_map(|kind| [1, 2, 5, 17].map(|size| (kind, size))) {
        let given = hermitian_matrices(size, kind);
        let count = given.len();
        let whole = format!("{count}x{size}x{size}x{}", kind.text);
        let types =
            [whole.clone(), format!("{count}x{size}x{}", kind.part), format!("{count}xi32")];
        for (letter, is_lower) in [('L', true), ('U', false)] {
            // Of each half real numbers or complex ones, of each size.
            if size > FEW_ROWS && (is_lower == kind.is_complex || kind.letter == 's') {
                continue;
            }
            // The other half is not read.
            let spoilt: Vec<Matrix> = given
                .iter()
                .map(|matrix| {
                    Matrix::of(size, size, |row, column| match (row < column) == is_lower {
                        true if row != column => (f64::NAN, f64::NAN),
                        _ => matrix.at(row, column),
                    })
                })
                .collect();
            let spoilt = [kind.tensor(&spoilt)];
            let told = format!("mode = 86 : ui8, uplo = {} : ui8", letter as u32);
            let name = if kind.is_complex { "heevd" } else { "syevd" };
            let routine = format!("{}{name}", kind.letter);
            let found = called(&routine, &told, (&spoilt, std::slice::from_ref(&whole)), &types);
            assert!(found[2].to_f64_vec().iter().all(|&number| number == 0.0));
            let values = found[1].to_f64_vec();
            for (at, (a, vectors)) in given.iter().zip(kind.matrices(&found[0])).enumerate() {
                let place = format!("{kind:?}, {size} rows, matrix {at}, {letter}");
                let values = &values[at * size..][..size];
                assert!(values.is_sorted(), "{place}: {values:?}");
                let square = vectors.adjoint().times(&vectors);
                let angle = square.away(&Matrix::unit(size));
                assert!(angle <= kind.tolerance, "{place}: {angle:e} from right angles");
                let error = a.times(&vectors).away(&vectors.scaled(values));
                let most = kind.tolerance * a.greatest() * size as f64;
                assert!(error <= most, "{place}: {error:e} from A v = lambda v, at most {most:e}");
            }
        }
    }
}

#[test]
fn singular_vectors_are_at_right_angles_and_make_the_matrix() {
    let sizes = [(1, 1), (2, 2), (5, 5), (17, 17), (5, 2), (2, 5), (1, 4), (17, 5)];
    for (kind, (rows, columns)) in
        KINDS.into_iter().flat_map(|kind| sizes.map(|extents| (kind, extents)))
    {
        let given = matrices(rows, columns, kind);
        let (count, least) = (given.len(), rows.min(columns));
        let of = |rows: usize, columns: usize| format!("{count}x{rows}x{columns}x{}", kind.text);
        let input = [kind.tensor(&given)];
        let mut before: Option<Vec<f64>> = None;
        for (letter, width, height) in
            [('A', rows, columns), ('S', least, least), ('N', least, least)]
        {
            if rows.max(columns) > FEW_ROWS && (letter == 'A') != (kind.dtype == DType::F64) {
                continue;
            }
            let types = [
                of(rows, columns),
                format!("{count}x{least}x{}", kind.part),
                of(rows, width),
                of(height, columns),
                format!("{count}xi32"),
            ];
            let told = format!("mode = {} : ui8", letter as u32);
            let routine = format!("{}gesdd", kind.letter);
            let found = called(&routine, &told, (&input, &[of(rows, columns)]), &types);
            let values = found[1].to_f64_vec();
            let same = before.get_or_insert_with(|| values.clone());
            assert!(
                same.iter().zip(&values).all(|(a, b)| (a - b).abs() <= kind.tolerance * a.abs())
            );
            if letter == 'N' {
                continue;
            }
            let (left, right) = (kind.matrices(&found[2]), kind.matrices(&found[3]));
            for (at, a) in given.iter().enumerate() {
                let place =
                    format!("{kind:?}, {rows} rows, {columns} columns, matrix {at}, {letter}");
                let values = &values[at * least..][..least];
                let falls = values.iter().rev().is_sorted() && values.iter().all(|&it| it >= 0.0);
                assert!(falls, "{place}: {values:?}");
                let (u, v) = (&left[at], right[at].adjoint());
                for side in [u, &v] {
                    let square = side.adjoint().times(side);
                    let angle = square.away(&Matrix::unit(side.columns));
                    assert!(angle <= kind.tolerance, "{place}: {angle:e} from right angles");
                }
                let (u, v) = (u.part(rows, least), v.part(columns, least));
                let error = u.scaled(values).times(&v.adjoint()).away(a);
                let most = kind.tolerance * a.greatest() * rows.max(columns) as f64;
                assert!(error <= most, "{place}: {error:e} from the matrix, at most {most:e}");
            }
        }
    }
}

#[test]
fn reflections_make_triangles() {
    let sizes = [(1, 1), (2, 2), (5, 5), (17, 17), (5, 2), (2, 5)];
    for (kind, (rows, columns)) in
        KINDS.into_iter().flat_map(|kind| sizes.map(|extents| (kind, extents)))
    {
        let given = matrices(rows, columns, kind);
        let (count, least) = (given.len(), rows.min(columns));
        let of = |rows: usize, columns: usize| format!("{count}x{rows}x{columns}x{}", kind.text);
        let taus = format!("{count}x{least}x{}", kind.text);
        let input = [kind.tensor(&given)];
        let routine = |real: &str, complex: &str| {
            format!("{}{}", kind.letter, if kind.is_complex { complex } else { real })
        };
        let types = [of(rows, columns), taus.clone()];
        let found = called(&routine("geqrf", "geqrf"), "", (&input, &types[..1]), &types);
        let packed = kind.matrices(&found[0]);
        // As many columns of Q as there are rows: zeros stand behind the vectors.
        let widened: Vec<Matrix> = packed
            .iter()
            .map(|packed| {
                Matrix::of(rows, rows, |row, column| match column < least {
                    true => packed.at(row, column),
                    false => (0.0, 0.0),
                })
            })
            .collect();
        let inputs = [kind.tensor(&widened), found[1].clone()];
        let own = (&inputs[..], &[of(rows, rows), taus.clone()][..]);
        let q = called(&routine("orgqr", "ungqr"), "", own, &[of(rows, rows)]);
        let q = kind.matrices(&q[0]);
        // Q^H A is R, and R^H Q^H is A^H.
        let inputs = [found[0].clone(), found[1].clone(), input[0].clone()];
        let types = [of(rows, columns), taus.clone(), of(rows, columns)];
        let told = "left = true, transpose = true";
        let r = called(&routine("ormqr", "unmqr"), told, (&inputs, &types), &types[2..]);
        let r = kind.matrices(&r[0]);
        let triangles: Vec<Matrix> = packed
            .iter()
            .map(|packed| {
                Matrix::of(rows, columns, |row, column| match row <= column {
                    true => packed.at(row, column),
                    false => (0.0, 0.0),
                })
            })
            .collect();
        let across: Vec<Matrix> = triangles.iter().map(Matrix::adjoint).collect();
        let inputs = [found[0].clone(), found[1].clone(), kind.tensor(&across)];
        let types = [of(rows, columns), taus, of(columns, rows)];
        let told = "left = false, transpose = true";
        let back = called(&routine("ormqr", "unmqr"), told, (&inputs, &types), &types[2..]);
        let back = kind.matrices(&back[0]);
        for (at, a) in given.iter().enumerate() {
            let place = format!("{kind:?}, {rows} rows, {columns} columns, matrix {at}");
            let angle = q[at].adjoint().times(&q[at]).away(&Matrix::unit(rows));
            assert!(angle <= kind.tolerance, "{place}: {angle:e} from right angles");
            let most = kind.tolerance * a.greatest() * rows as f64;
            for (what, error) in [
                ("Q R", q[at].times(&triangles[at]).away(a)),
                ("Q^H A", r[at].away(&triangles[at])),
                ("R^H Q^H", back[at].away(&a.adjoint())),
            ] {
                assert!(error <= most, "{place}: {what} is off by {error:e}, at most {most:e}");
            }
        }
    }
}

#[test]
fn elimination_with_exchanges_gives_triangles() {
    let sizes = [(1, 1), (2, 2), (5, 5), (17, 17), (5, 2), (2, 5)];
    for (kind, (rows, columns)) in
        KINDS.into_iter().flat_map(|kind| sizes.map(|extents| (kind, extents)))
    {
        let given = matrices(rows, columns, kind);
        let (count, least) = (given.len(), rows.min(columns));
        let whole = format!("{count}x{rows}x{columns}x{}", kind.text);
        let types = [whole.clone(), format!("{count}x{least}xi32"), format!("{count}xi32")];
        let input = [kind.tensor(&given)];
        let routine = format!("{}getrf", kind.letter);
        let found = called(&routine, "", (&input, &[whole]), &types);
        let factors = kind.matrices(&found[0]);
        let (pivots, failed) = (found[1].to_f64_vec(), found[2].to_f64_vec());
        for (at, a) in given.iter().enumerate() {
            let place = format!("{kind:?}, {rows} rows, {columns} columns, matrix {at}");
            let packed = &factors[at];
            let lower = Matrix::of(rows, least, |row, column| match row.cmp(&column) {
                std::cmp::Ordering::Less => (0.0, 0.0),
                std::cmp::Ordering::Equal => (1.0, 0.0),
                std::cmp::Ordering::Greater => packed.at(row, column),
            });
            let upper = Matrix::of(least, columns, |row, column| match row <= column {
                true => packed.at(row, column),
                false => (0.0, 0.0),
            });
            let mut order: Vec<usize> = (0..rows).collect();
            for (row, pivot) in pivots[at * least..][..least].iter().enumerate() {
                order.swap(row, *pivot as usize - 1);
            }
            let exchanged = Matrix::of(rows, columns, |row, column| a.at(order[row], column));
            let error = lower.times(&upper).away(&exchanged);
            let most = kind.tolerance * a.greatest() * rows as f64;
            assert!(error <= most, "{place}: {error:e} from the matrix, at most {most:e}");
            // Pivots are the greatest by the sum of both parts' sizes.
            let most = if kind.is_complex { 2_f64.sqrt() } else { 1.0 } + kind.tolerance;
            let is_small = |(re, im): (f64, f64)| re.hypot(im) <= most;
            assert!(lower.elements.iter().all(|&pair| is_small(pair)), "{place}: not pivoted");
            let zero = (0..least).find(|&at| upper.at(at, at) == (0.0, 0.0));
            assert_eq!(failed[at] as usize, zero.map_or(0, |at| at + 1), "{place}");
        }
    }
}

#[test]
fn cholesky_factors_and_triangular_systems() {
    for (kind, size) in
        KINDS.into_iter().flat_map(|kind| [1, 2, 5, 17, 40].map(|size| (kind, size)))
    {
        let mut numbers = Numbers(size as u64);
        let root = numbers.matrix(size, size, kind);
        let square = root.times(&root.adjoint());
        let positive = Matrix::of(size, size, |row, column| {
            let (re, im) = square.at(row, column);
            (if row == column { re + 1.0 } else { re }, im)
        });
        // The second has no factor.
        let given = kind.rounded(&[positive.clone(), Matrix::unit(size).scaled(&vec![-1.0; size])]);
        let whole = format!("2x{size}x{size}x{}", kind.text);
        for (letter, is_lower) in [('L', true), ('U', false)] {
            let types = [whole.clone(), "2xi32".to_owned()];
            let told = format!("uplo = {} : ui8", letter as u32);
            let input = [kind.tensor(&given)];
            let routine = format!("{}potrf", kind.letter);
            let found = called(&routine, &told, (&input, &types[..1]), &types);
            assert_eq!(found[1].to_f64_vec(), [0.0, 1.0]);
            let own = &kind.matrices(&found[0])[0];
            let factor = Matrix::of(size, size, |row, column| {
                let is_in = if is_lower { row >= column } else { row <= column };
                if is_in { own.at(row, column) } else { (0.0, 0.0) }
            });
            let lower = if is_lower { factor.clone() } else { factor.adjoint() };
            let error = lower.times(&lower.adjoint()).away(&given[0]);
            let most = kind.tolerance * given[0].greatest() * size as f64;
            assert!(error <= most, "{kind:?}, {size} rows, {letter}: {error:e}, at most {most:e}");
            // The factor's adjoint on the right of what is sought.
            let right = numbers.matrix(3, size, kind);
            let told = format!(
                "diag = 78 : ui8, side = 82 : ui8, trans_x = 67 : ui8, uplo = {} : ui8",
                letter as u32
            );
            let right = kind.rounded(&[right]);
            let factors = kind.rounded(&[factor]);
            let inputs = [kind.tensor(&factors), kind.tensor(&right)];
            let types =
                [format!("1x{size}x{size}x{}", kind.text), format!("1x3x{size}x{}", kind.text)];
            let routine = format!("{}trsm", kind.letter);
            let found = called(&routine, &told, (&inputs, &types), &types[1..]);
            let sought = &kind.matrices(&found[0])[0];
            let error = sought.times(&factors[0].adjoint()).away(&right[0]);
            let most = kind.tolerance * (1.0 + sought.greatest()) * size as f64;
            assert!(error <= most, "{kind:?}, {size} rows, {letter}: {error:e}, at most {most:e}");
        }
    }
}

#[test]
fn calls_that_are_none_are_refused() {
    let text = |routine: &str, told: &str| {
        format!(
            "func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {{\n  %y:3 = \
             stablehlo.custom_call @{routine}(%x) {{mhlo.backend_config = {{{told}}}}} : \
             (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>, tensor<i32>)\n  return %y#0 : \
             tensor<2x2xf32>\n}}\n"
        )
    };
    let refused = |routine: &str, told: &str| {
        import(text(routine, told).as_bytes()).err().unwrap_or_else(|| panic!("{routine} {told}"))
    };
    assert!(
        import(text("lapack_ssyevd_ffi", "mode = 86 : ui8, uplo = 76 : ui8").as_bytes()).is_ok()
    );
    let found = refused("lapack_ssyevd_ffi", "mode = 86 : ui8, uplo = 90 : ui8");
    assert!(found.contains("uplo") && found.contains("line 2"), "{found}");
    let found = refused("lapack_ssyevd_ffi", "");
    assert!(found.contains("TW0104") || found.contains("uplo"), "{found}");
    // Declared as a routine of another shape gives it.
    let found = refused("lapack_sgetrf_ffi", "");
    assert!(found.contains("line 2"), "{found}");
    let found = refused("lapack_sgeev_ffi", "");
    assert!(found.contains("lapack_sgeev_ffi") && found.contains("TW0103"), "{found}");
}

/// What a program of one operation gives.
fn program(operation: &str, inputs: &[Tensor], types: &[String], result: &str) -> Tensor {
    let tensor = |text: &String| format!("tensor<{text}>");
    let given: Vec<String> = types.iter().map(tensor).collect();
    let parameters = given.iter().enumerate().map(|(at, text)| format!("%a{at}: {text}"));
    let parameters: Vec<String> = parameters.collect();
    let text = format!(
        "func.func public @main({}) -> tensor<{result}> {{\n  %r = {operation} : ({}) -> \
         tensor<{result}>\n  return %r : tensor<{result}>\n}}\n",
        parameters.join(", "),
        given.join(", "),
    );
    let imported = import(text.as_bytes()).unwrap_or_else(|found| panic!("{found}\n{text}"));
    let mut found = evaluated(&imported, inputs).unwrap_or_else(|found| panic!("{found}\n{text}"));
    found.remove(0)
}

/// Matrices of less than a block, of whole blocks, and of blocks with a shorter one behind.
const BLOCKED_SIZES: [usize; 4] = [7, 64, 75, 33];

#[test]
fn triangular_systems_of_several_blocks_are_solved() {
    for (at, size) in BLOCKED_SIZES.into_iter().enumerate() {
        for kind in [KINDS[1], KINDS[3]] {
            let mut numbers = Numbers(size as u64);
            // Elements off the diagonal that do not make the inverse large.
            let a: Vec<Matrix> = (0..2)
                .map(|_| {
                    let any = numbers.matrix(size, size, kind).scaled(&vec![0.2; size]);
                    Matrix::of(size, size, |row, column| {
                        let (re, im) = any.at(row, column);
                        if row == column { (re + 2.0, im) } else { (re, im) }
                    })
                })
                .collect();
            for (number, transposition) in
                ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"].into_iter().enumerate()
            {
                let is_lower = (number + at).is_multiple_of(2);
                let (is_left, is_unit) = ((number + at) % 3 != 1, number == 1);
                let (rows, columns) = if is_left { (size, 3) } else { (3, size) };
                let b: Vec<Matrix> = (0..2).map(|_| numbers.matrix(rows, columns, kind)).collect();
                let types = [
                    format!("2x{size}x{size}x{}", kind.text),
                    format!("2x{rows}x{columns}x{}", kind.text),
                ];
                let operation = format!(
                    "\"stablehlo.triangular_solve\"(%a0, %a1) <{{left_side = {is_left}, lower = \
                     {is_lower}, unit_diagonal = {is_unit}, transpose_a = #stablehlo<transpose \
                     {transposition}>}}>"
                );
                let inputs = [kind.tensor(&a), kind.tensor(&b)];
                let found = kind.matrices(&program(&operation, &inputs, &types, &types[1]));
                for ((a, b), x) in a.iter().zip(&b).zip(&found) {
                    let triangle = Matrix::of(size, size, |row, column| {
                        if row == column && is_unit {
                            (1.0, 0.0)
                        } else if row == column || (row > column) == is_lower {
                            a.at(row, column)
                        } else {
                            (0.0, 0.0)
                        }
                    });
                    let own = match transposition {
                        "NO_TRANSPOSE" => triangle,
                        "ADJOINT" => triangle.adjoint(),
                        _ => Matrix::of(size, size, |row, column| triangle.at(column, row)),
                    };
                    let made = if is_left { own.times(x) } else { x.times(&own) };
                    let error = made.away(b);
                    let place = format!("{kind:?}, {size} rows, {operation}");
                    assert!(error <= 1e-11, "{place}: {error:e} from what is given");
                }
            }
        }
    }
}

#[test]
fn factors_of_several_blocks_make_the_matrix() {
    for size in BLOCKED_SIZES {
        for kind in [KINDS[1], KINDS[3]] {
            let half = Numbers(size as u64).matrix(size, size, kind);
            let square = half.times(&half.adjoint());
            let a = Matrix::of(size, size, |row, column| {
                let (re, im) = square.at(row, column);
                if row == column { (re + 1.0, im) } else { (re, im) }
            });
            let types = [format!("1x{size}x{size}x{}", kind.text)];
            for is_lower in [true, false] {
                let operation = format!("\"stablehlo.cholesky\"(%a0) <{{lower = {is_lower}}}>");
                let inputs = [kind.tensor(std::slice::from_ref(&a))];
                let found = kind.matrices(&program(&operation, &inputs, &types, &types[0]));
                let factor = Matrix::of(size, size, |row, column| {
                    match row == column || (row > column) == is_lower {
                        true => found[0].at(row, column),
                        false => (0.0, 0.0),
                    }
                });
                let made = match is_lower {
                    true => factor.times(&factor.adjoint()),
                    false => factor.adjoint().times(&factor),
                };
                let error = made.away(&a);
                assert!(error <= 1e-11, "{kind:?}, {size} rows: {error:e} from the matrix");
            }
        }
    }
}
