select content from source where hash = $1
