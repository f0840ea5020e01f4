/** The file of a database's search index. */
export const indexPathOf = (path: string): string => `${path}-search`
