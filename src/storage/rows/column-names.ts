/** Column names by field, for columns that are not named after their fields. */
export type ColumnNames = Readonly<Record<string, string>>

export const snake = (field: string): string => field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** Returns the column of a field. */
export const columnOfField = (field: string, columns: ColumnNames = {}): string => columns[field] ?? snake(field)

/** Returns the companion column with the case-folded text of a field. */
export const keyColumnOfField = (field: string, columns?: ColumnNames): string => `${columnOfField(field, columns)}_key`
