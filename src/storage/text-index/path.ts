/** The path of the file that holds a database's text index. */
export const indexPathOf = (path: string): string => `${path}-search`
