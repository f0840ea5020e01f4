import type { ReactNode } from 'react'

export interface Column<Row> {
  title: string
  cell: (row: Row) => ReactNode
  isNumber?: boolean
}

interface TableProps<Row> {
  /** What the table lists, for screen readers. */
  label: string
  columns: readonly Column<Row>[]
  rows: readonly Row[]
  keyOf: (row: Row) => string | number
}

/** A table for at most a few hundred rows. On a phone, each row is a card, with the first column as its header. */
export function Table<Row>({ label, columns, rows, keyOf }: TableProps<Row>) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard
    <section className="table-box" aria-label={label} tabIndex={0}>
      <table className="table cards">
        <thead>
          <tr>
            {columns.map(({ title, isNumber }) => (
              <th key={title} scope="col" className={isNumber ? 'number' : undefined}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map(({ title, cell, isNumber }, at) => {
                const Cell = at === 0 ? 'th' : 'td'
                return (
                  <Cell
                    key={title}
                    scope={at === 0 ? 'row' : undefined}
                    data-label={title}
                    className={isNumber ? 'number' : undefined}
                  >
                    <div>{cell(row)}</div>
                  </Cell>
                )
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}
