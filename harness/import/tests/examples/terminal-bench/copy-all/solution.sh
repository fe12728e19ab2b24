ls | grep -v -e files.txt -e listed | sort > /tmp/listed
mv /tmp/listed files.txt
